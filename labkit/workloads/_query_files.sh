# nginx (machine/nginx.sh) in the foreground, as a store of files that takes new ones, or as the read cache before one.
#   _query_files store ADDRESS PORT SECRET DATA
#   _query_files cache ADDRESS PORT SECRET STORE_URL PERCENT
# All that it writes is in a folder that goes with it. SECRET is a file: who does not know the word
# in it gets nothing, and `ps` does not show it.
token=$(cat "$4")
kind=$1 address=$2 port=$3 from=$5 percent=${6:-0}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/shared" "$folder/cache" "$folder/temporary"
if [ "$kind" = store ]; then
    paths="location /$token/data/ { alias $from/; }
        location /$token/shared/ { alias $folder/shared/; dav_methods PUT DELETE; }"
    kept=
else
    # What is left out of the cache is left out always: its share of the data is known.
    share="$percent% ''; * 1;"
    [ "$percent" != 0 ] || share="* 1;"
    [ "$percent" != 100 ] || share="* '';"
    kept="map \$uri \$file { default ''; ~/(?<last>[^/]+)\$ \$last; }
        split_clients \$file \$left_out { $share }
        proxy_cache_path $folder/cache levels=1 keys_zone=read:4m inactive=1h use_temp_path=off;"
    paths="location /$token/ {
            proxy_pass $from/$token/; proxy_http_version 1.1; proxy_set_header Connection '';
            proxy_cache read; proxy_cache_valid 200 1h; proxy_cache_lock on;
            proxy_cache_bypass \$left_out; proxy_no_cache \$left_out;
            add_header X-Cache \$upstream_cache_status;
        }"
fi
cat > "$folder/nginx.conf" << CONF
daemon off; worker_processes 1; pid $folder/temporary/pid; error_log stderr error;
events { worker_connections 1024; }
http {
    access_log off; client_max_body_size 0; $places
    $kept
    server { listen $address:$port; $paths }
}
CONF
[ -z "$user" ] || chown -R "$user" "$folder"
serve "$folder"
exit "$code"
