# programs: nginx perl setpriv
# Serves the pages of a web in the foreground: nginx, plain and by TLS, before an application.
#   web_serve FOLDER ADDRESS PORT SECURE_PORT WORKERS
# FOLDER holds app.pl and identity.pem. Neither nginx nor the application runs as root.
set -eu
folder=$1 address=$2 port=$3 secure=$4 workers=$5
PATH=$PATH:/usr/sbin
command -v nginx > /dev/null || { echo "no nginx is installed here" >&2; exit 1; }
cd "$folder"
rm -rf temporary
mkdir -p -m 711 temporary files
for each in 1 2 3 4 5 6 7 8; do
    dd if=/dev/zero of="files/image$each" bs=1024 count="$each" 2> /dev/null
    dd if=/dev/zero of="files/file$each" bs=32768 count="$each" 2> /dev/null
done
cat > nginx.conf << CONF
daemon off; worker_processes $workers; pid $folder/temporary/pid; error_log stderr crit;
worker_rlimit_nofile 8192;
events { worker_connections 4096; }
http {
    access_log off; default_type text/html; keepalive_requests 100000; tcp_nodelay on; sendfile on;
    client_body_temp_path temporary/body; proxy_temp_path temporary/proxy;
    fastcgi_temp_path temporary/fastcgi; uwsgi_temp_path temporary/uwsgi; scgi_temp_path temporary/scgi;
    ssl_certificate identity.pem; ssl_certificate_key identity.pem; ssl_session_cache off;
    server {
        listen $address:$port backlog=4096;
        listen $address:$secure ssl backlog=4096;
        root $folder/files;
        location /page/ {
            scgi_pass unix:$folder/temporary/app; scgi_buffers 16 16k;
            scgi_param REQUEST_URI \$request_uri; scgi_param QUERY_STRING \$query_string;
        }
    }
}
CONF
own=
if [ "$(id -u)" = 0 ]; then
    user=$(id -u www-data 2> /dev/null || id -u nobody 2> /dev/null || echo 65534)
    own="setpriv --reuid=$user --regid=$user --clear-groups"
    chown -R "$user" temporary identity.pem
fi
chmod 644 nginx.conf app.pl
$own perl app.pl "$folder/temporary/app" $((2 * workers)) &
application=$!
until [ -S temporary/app ]; do
    kill -0 "$application" 2> /dev/null || exit 1
    sleep 0.05
done
$own nginx -e stderr -p "$folder" -c "$folder/nginx.conf" &
server=$!
trap 'kill "$server" 2> /dev/null' TERM INT
code=0
wait "$server" || code=$?
kill "$application" 2> /dev/null || :
wait
exit "$code"
