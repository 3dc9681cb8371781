# programs: initdb mariadbd nginx
case $1 in
    postgresql)
        for file in /usr/lib/postgresql/*/bin/initdb /usr/pgsql-*/bin/initdb; do
            [ ! -x "$file" ] || exit 0
        done
        command -v initdb ;;
    mariadb) PATH=$PATH:/usr/sbin:/usr/libexec; command -v mariadbd ;;
    nginx) PATH=$PATH:/usr/sbin; command -v nginx ;;
esac > /dev/null 2>&1
