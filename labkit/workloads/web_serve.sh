# programs: perl
# Serves the pages of a web in the foreground: nginx (machine/nginx.sh), plain and by TLS, before an application.
#   web_serve FOLDER ADDRESS PORT SECURE_PORT
# It has a process of nginx for each CPU, and two of the application.
# FOLDER holds app.pl and identity.pem. Neither nginx nor the application runs as root.
folder=$1 address=$2 port=$3 secure=$4
workers=$(nproc)
cd "$folder" || exit
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
    $places
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
[ -z "$user" ] || chown -R "$user" temporary identity.pem
chmod 644 nginx.conf app.pl
$own perl app.pl "$folder/temporary/app" $((2 * workers)) &
application=$!
until [ -S temporary/app ]; do
    kill -0 "$application" 2> /dev/null || exit 1
    sleep 0.05
done
serve "$folder" "$application"
exit "$code"
