# programs: initdb python3 systemctl
# A management server in a machine that its owner's cluster guards.
#   _guarded_center lacks | begin FOLDER COMMAND ADDRESS | end FOLDER | look FOLDER
verb=$1 folder=${2-} unit=/etc/systemd/system/labkit-center.service
case $verb in
    lacks)
        command -v systemctl > /dev/null || echo systemd
        python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2> /dev/null || echo python3
        for file in /usr/lib/postgresql/*/bin/initdb /usr/pgsql-*/bin/initdb; do
            [ ! -x "$file" ] || exit 0
        done
        command -v initdb > /dev/null || echo postgresql
        ;;
    begin)
        cat > "$unit" << END
[Unit]
Description=Management server of a study of labkit
[Service]
ExecStart=/usr/bin/env $3 %b $4
[Install]
WantedBy=multi-user.target
END
        systemctl daemon-reload && systemctl enable -q --now labkit-center || exit
        # What is not on its disk is lost with the host.
        sync
        ;;
    end)
        [ -e "$unit" ] || [ -e "$folder" ] || exit 0
        [ ! -e "$unit" ] || systemctl disable -q --now labkit-center
        rm -rf "$unit" "$folder" && systemctl daemon-reload && sync
        ;;
    look)
        cat /proc/sys/kernel/random/boot_id
        read -r up _ < /proc/uptime
        date +%s.%N | awk -v up="$up" '{ printf "boot %.3f\n", $1 - up }'
        cat "$folder/log"
        ;;
esac
