# programs: esxcli
of() { sed -n "s/^ *$1 *= *\"\(.*\)\".*/\1/p" "$vmx"; }
memory=$(of memSize) cpus=$(of numvcpus)
hertz=$(esxcli hardware cpu list | sed -n 's/^ *Core Speed: //p' | head -n 1)
mhz=$((${cpus:-1} * ${hertz%??????}))
