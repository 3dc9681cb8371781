# programs: vim-cmd
off='Powered off'
case $2 in
    on) vim-cmd vmsvc/power.on "$id" ;;
    *) vim-cmd vmsvc/power.shutdown "$id" && await_off ;;
esac
