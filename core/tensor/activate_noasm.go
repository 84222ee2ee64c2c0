//go:build !amd64 || purego

package tensor

// Without assembly, the loops of activate.go process every element.

func expVec(_, _ []float32) int { return 0 }

func sigmoidVec(_, _ []float32) int { return 0 }

func tanhVec(_, _ []float32) int { return 0 }

func erfVec(_, _ []float32) int { return 0 }

func geluVec(_, _ []float32) int { return 0 }

func siluVec(_, _ []float32) int { return 0 }

func sqrtVec(_, _ []float32) int { return 0 }

func leakyVec(_, _ []float32, _ float32) int { return 0 }

func addToVec(_, _ []float32, _ float32) int { return 0 }

func subFromVec(_, _ []float32, _ float32) int { return 0 }

func mulByVec(_, _ []float32, _ float32) int { return 0 }

func divByVec(_, _ []float32, _ float32) int { return 0 }

func divFromVec(_, _ []float32, _ float32) int { return 0 }

func hardSigmoidVec(_, _ []float32, _, _ float32) int { return 0 }

func hardSwishVec(_, _ []float32, _, _ float32) int { return 0 }

func clipVec(_, _ []float32, _, _ float32) int { return 0 }

func linearVec(_, _ []float32, _, _ float32) int { return 0 }

func addVec(_, _, _ []float32) int { return 0 }

func subVec(_, _, _ []float32) int { return 0 }

func mulVec(_, _, _ []float32) int { return 0 }

func divVec(_, _, _ []float32) int { return 0 }

func sumVec(_ []float32) (float32, int) { return 0, 0 }

func deviationVec(_ []float32, _ float32) (float32, int) { return 0, 0 }

func normaliseVec(_, _, _, _ []float32, _, _ float32) int { return 0 }

func lstmVec(_, _, _, _, _, _ []float32) int { return 0 }

func fromBytesVec(_ []float32, _ []uint8) int { return 0 }

func toBytesVec(_ []uint8, _ []float32) int { return 0 }
