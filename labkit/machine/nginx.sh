# programs: nginx setpriv
# What serves with nginx begins with this. `$user` is whom it runs as in place of root, or empty;
# `$own` are the words that make a command this user's: no function, as what is started with them in
# the background is the server itself.
set -eu
PATH=$PATH:/usr/sbin
command -v nginx > /dev/null || { echo "no nginx is installed here" >&2; exit 1; }
user='' own=
[ "$(id -u)" != 0 ] || user=$(id -u www-data 2> /dev/null || id -u nobody 2> /dev/null || echo 65534)
[ -z "$user" ] || own="setpriv --reuid=$user --regid=$user --clear-groups"

# Where it keeps what does not fit into its memory, of the folder that it is started in.
places='client_body_temp_path temporary/body; proxy_temp_path temporary/proxy;
    fastcgi_temp_path temporary/fastcgi; uwsgi_temp_path temporary/uwsgi; scgi_temp_path temporary/scgi;'

# serve FOLDER [PROCESS]: by FOLDER/nginx.conf until it is stopped; the process beside it ends with it.
serve() {
    application=${2:-}
    $own nginx -e stderr -p "$1" -c "$1/nginx.conf" &
    server=$!
    trap 'kill $server $application 2> /dev/null' TERM INT
    code=0
    wait "$server" || code=$?
    [ -z "$application" ] || kill "$application" 2> /dev/null || :
    wait
}
