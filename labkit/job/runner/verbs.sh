verb=$1
shift
case $verb in
    start | list) "$verb" "$@" ;;
    supervise | ended | become | look | cancel | forget | owned)
        job=$1
        shift
        "$verb" "$@"
        ;;
esac
