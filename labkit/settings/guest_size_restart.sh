vm=@$1 was=$(guest "@$1" state) || exit
guest "$vm" set "$2" || exit
[ "$was" = stopped ] || { guest "$vm" stop && guest "$vm" start; } || exit
[ "$was" != paused ] || guest "$vm" pause
