# programs: ls mkdir
# own_place FOLDER MODE: makes the folder unless it is there, and insists that it is ours: no link, and
# nobody else can write to it or put something else in its place. Only then is anything put there.
# The owner of / is the system's: in a namespace of users it may have another number than 0.
own_place() {
    mkdir -m "$2" "$1" 2> /dev/null || :
    own_shape='' own_parent='' own_above='' own_system=''
    IFS=' ' read -r _ _ own_system _ << END
$(ls -ldn /)
END
    IFS=' ' read -r own_parent _ own_above _ << END
$(ls -ldn "${1%/*}/" 2> /dev/null)
END
    IFS=' ' read -r own_shape _ << END
$(ls -ldn "$1" 2>&1)
END
    case $own_parent in d????-??-* | d????????[tT]*) ;; *) own_above=anybody ;; esac
    case $own_shape in
        l*) own_why="is a link" ;;
        d????-??-*) own_why= ;;
        d*) own_why="can be written to by others" ;;
        *) own_why="cannot be made" ;;
    esac
    if [ -d "$1" ] && [ ! -O "$1" ]; then own_why="belongs to somebody else"; fi
    case $own_above in
        0 | "$own_system" | "$(id -u)") ;;
        *) own_why="can be swapped: ${1%/*} is not the system's and not ours" ;;
    esac
    [ -n "$own_why" ] || return 0
    echo "$1 $own_why: nothing was put there. Look who made it (ls -ld $1), then remove it" >&2
    return 1
}
