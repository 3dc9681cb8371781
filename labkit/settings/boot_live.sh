line=$1; shift
said=" $(cat /proc/cmdline) " || exit
for one; do case $said in *" $one "*) ;; *) exit 0 ;; esac; done
printf '%s\n' "$line"
