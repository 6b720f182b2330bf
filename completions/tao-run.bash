_tao_run_completion() {
    local IFS=$'
'
    COMPREPLY=( $( env COMP_WORDS="${COMP_WORDS[*]}" \
                   COMP_CWORD=$COMP_CWORD \
                   _TAO_RUN_COMPLETE=complete_bash $1 ) )
    return 0
}

complete -o default -F _tao_run_completion tao-run
