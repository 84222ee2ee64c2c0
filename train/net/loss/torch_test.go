package loss

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"testing"

	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/train/nn"
)

// question is what testdata/answers.py is asked.
type question struct {
	Logits  [][]float64 `json:"logits"`
	Targets []int32     `json:"targets"`
	Blank   int         `json:"blank"`
}

// answer is a loss and its gradient.
type answer struct {
	Loss float64     `json:"loss"`
	Grad [][]float64 `json:"grad"`
}

// TestTorch: the losses are PyTorch's. TORCH_PYTHON names a Python with it.
func TestTorch(t *testing.T) {
	if python := os.Getenv("TORCH_PYTHON"); python != "" {
		t.Setenv("MM_PYTHON", python)
	}
	python := testfiles.Python(t, "torch")
	r := nn.NewRandom(6)
	var asked []question
	var got []answer
	for i := range 40 {
		T, V := 1+i%13, 2+i%5
		y, dy := nn.NewMatrix[float64](T, V), nn.NewMatrix[float64](T, V)
		nn.FillNormal(y.Data, r, 2)
		q := question{Blank: i % V}
		for range i % (T/2 + 1) {
			q.Targets = append(q.Targets, int32((q.Blank+1+int(r.Uniform()*float64(V-1)))%V))
		}
		a := answer{Loss: CTC(y, dy, q.Targets, q.Blank, 1)}
		for row := range T {
			q.Logits, a.Grad = append(q.Logits, y.Row(row)), append(a.Grad, dy.Row(row))
		}
		if !math.IsInf(a.Loss, 0) {
			asked, got = append(asked, q), append(got, a)
		}
	}
	if len(asked) < 30 {
		t.Fatalf("%d questions", len(asked))
	}
	in, err := json.Marshal(asked)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "testdata/answers.py")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var want []answer
	if err := json.Unmarshal(out, &want); err != nil {
		t.Fatal(err)
	}
	worst := 0.0
	for i, w := range want {
		worst = max(worst, math.Abs(w.Loss-got[i].Loss))
		for row, all := range w.Grad {
			for k, g := range all {
				worst = max(worst, math.Abs(g-got[i].Grad[row][k]))
			}
		}
	}
	t.Logf("%d questions, greatest difference %.1e", len(want), worst)
	if !(worst < 1e-10) || len(want) != len(got) {
		t.Errorf("greatest difference from PyTorch's %v", worst)
	}
}
