# programs: initdb nginx
case $1 in
    postgresql)
        for file in /usr/lib/postgresql/*/bin/initdb /usr/pgsql-*/bin/initdb; do
            [ ! -x "$file" ] || exit 0
        done
        command -v initdb ;;
    nginx) PATH=$PATH:/usr/sbin; command -v nginx ;;
esac > /dev/null 2>&1
