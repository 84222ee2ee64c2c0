#compdef mm
_mm() {
  local -a words_so_far options
  words_so_far=("${(@)words[2,CURRENT-1]}")
  [[ "${words[CURRENT]}" == -* ]] && words_so_far+=("${words[CURRENT]}")
  options=("${(@f)$(mm "${words_so_far[@]}" --generate-bash-completion 2>/dev/null | cut -d: -f1)}")
  [[ -n "${options[1]}" ]] && compadd -a options
  _files
}
compdef _mm mm
