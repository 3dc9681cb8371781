# programs: python3
# Serves the pages of a shop, in the foreground: nginx (machine/nginx.sh) before the application that asks the database.
# The database is made before the first page is asked for; neither runs as root.
#   serve_web FOLDER ADDRESS PORT APPLICATION_PORT WORKERS KIT DATABASE_AT SECRET
folder=$1 address=$2 port=$3 inner=$4 workers=$5 kit=$6 database=$7 secret=$8
# The first one of this shell may lie in a home folder that nobody else may look into.
python=
for each in python3 /usr/bin/python3 /usr/local/bin/python3; do
    ! $own "$each" -c "" 2> /dev/null || { python=$each; break; }
done
[ "$python" ] || { echo "there is no python3 that user ${user:-here} may run" >&2; exit 1; }

rm -rf "$folder"
mkdir -p -m 711 "$folder"
umask 077
cd "$folder" || exit
mkdir temporary
cp "$secret" word
cat > nginx.conf <<CONF
daemon off; worker_processes 1; pid $folder/temporary/pid; error_log stderr warn;
events { worker_connections 2048; }
http {
    access_log off; default_type text/html; keepalive_requests 1000000; keepalive_timeout 7200; tcp_nodelay on;
    $places
    upstream application { server 127.0.0.1:$inner; keepalive $workers; }
    server {
        listen $address:$port;
        location / {
            proxy_pass http://application; proxy_http_version 1.1; proxy_set_header Connection "";
            proxy_next_upstream off;
        }
    }
}
CONF
chmod 644 nginx.conf
[ -z "$user" ] || chown -R "$user" temporary word
$own "$python" "$kit" serve --at "$database" --secret "$folder/word" \
    --pages "127.0.0.1:$inner" --users "$workers" &
application=$!
# nginx is asked as soon as it listens, so that the application has to be there before it.
until grep -q " [0-9A-F]*:$(printf %04X "$inner") [0-9A-F:]* 0A " /proc/net/tcp; do
    kill -0 "$application" 2> /dev/null || exit 1
    sleep 0.05
done
serve "$folder" "$application"
rm -rf "$folder"
exit "$code"
