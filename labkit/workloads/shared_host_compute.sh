exec awk 'BEGIN {
    x = 1
    for (;;) {
        for (i = 0; i < 2000; i++) x = (x * 16807) % 2147483647
        n += 20
        print n
        fflush()
    }
}' > "$1" 
