cd /sys/devices/system/cpu && for one in cpu[0-9]*; do
    [ -e "$one/online" ] || continue
    case " $* " in *" ${one#cpu} "*) on=1 ;; *) on=0 ;; esac
    [ "$(cat "$one/online")" = "$on" ] || printf %s "$on" | tee "$one/online" >/dev/null || exit
done
