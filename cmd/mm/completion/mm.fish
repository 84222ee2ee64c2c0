function __mm_complete
  set -l words (commandline -opc)
  set -l current (commandline -ct)
  string match -q -- '-*' $current; and set -a words $current
  command mm $words[2..-1] --generate-bash-completion 2>/dev/null | string replace -r ':.*' ''
end
complete -c mm -a '(__mm_complete)'
