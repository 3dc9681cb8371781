# The first process of a container: waits for its addresses, and becomes its sshd.
read -r _ < /given/go
for file in /given/* ; do
    case ${file##*/} in go | log | init) ;; *) cp -r "$file" /run/labkit/ ;; esac
done
mkdir -p /run/sshd
chmod 600 /run/labkit/host_key
exec "$(command -v sshd)" -D -E /given/log -f /run/labkit/sshd_config
