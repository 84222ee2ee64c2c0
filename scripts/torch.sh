# Sourced by the scripts that measure beside PyTorch: $python is a Python that
# has what is asked for, and PyTorch is held to the level of MM_CPU (ATen's own
# kernels, oneDNN's and MKL's). Without such a Python nothing is measured.
#
#   . scripts/torch.sh 'import torch'
python=${MM_PYTHON:-python3}
if ! "$python" -c "$1" 2>/dev/null; then
  echo "skipped: $python fails at \"$1\"; MM_PYTHON names one that does not"
  exit 0
fi
case ${MM_CPU:-} in
avx2 | avxvnni)
  export ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2
  ;;
esac
