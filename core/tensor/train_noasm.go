//go:build !amd64 || purego

package tensor

// Without assembly, the loops of train.go process every element.

func dot3(_, _, _ []float32) (float32, int) { return 0, 0 }

func swiGLUBackward(_, _, _, _, _ []float32) int { return 0 }

func relu2(_, _ []float32) int { return 0 }

func relu2Backward(_, _, _ []float32) int { return 0 }

func addSquaresVec(_, _ []float32) (float32, int) { return 0, 0 }

func normBackward(_, _, _, _, _, _ []float32, _, _ float32) int { return 0 }

func softmax(_ []float32) (m, sum float32, ok bool) { return 0, 0, false }

func softmaxBackward(_, _ []float32, _, _, _ float32) bool { return false }

func swiGLU(_, _, _ []float32) int { return 0 }

func (k *AdamW) update(_, _, _, _ []float32) int { return 0 }
