# programs: vim-cmd
# It was off before: its system is asked to end, and has no work to lose if it does not.
[ "$(state)" = 'Powered off' ] && exit
vim-cmd vmsvc/power.shutdown "$id" >&2
n=0; until [ "$(state)" = 'Powered off' ]; do
    n=$((n + 1)); [ "$n" -lt 60 ] || { vim-cmd vmsvc/power.off "$id"; exit; }
    sleep 1; done
