package main

import (
	"os"

	"github.com/rogpeppe/go-internal/testscript"

	"mm-abi.org/mm/core/qnn"
	"mm-abi.org/mm/core/qnn/context"
	"mm-abi.org/mm/core/qnn/qnntest"
)

// qnnFiles are a file of each format for QNN: q.bin, q.tflite with two contexts
// and an operator for the processor, whole.tflite with one, q.dlc.
func qnnFiles() map[string][]byte {
	c := qnntest.Sample()
	c.BlobSize = 512
	quantised := qnntest.Sample()
	quantised.BlobSize = 100
	x := &quantised.Graphs[0].Inputs[0]
	x.DType, x.Quant = qnn.UFixed8, context.Quantisation{Encoding: context.ScaleOffset, Scales: []float32{0.5}, Offsets: []int32{-3}}
	x.Dynamic = []bool{false, false}
	quantised.Tensors = []context.Tensor{quantised.Graphs[0].Outputs[0]}
	plain, second := qnntest.Context(c), qnntest.Context(quantised)
	return map[string][]byte{
		"q.bin":        plain,
		"q.tflite":     qnntest.LiteRT{Stamp: "SM8750", Left: []uint32{156}, Parts: []qnntest.Part{{Graph: "main", Context: plain}, {Graph: "main", Context: second}}}.Bytes(),
		"whole.tflite": qnntest.LiteRT{Stamp: "SM8750", Parts: []qnntest.Part{{Graph: "main", Context: plain}}}.Bytes(),
		"q.dlc":        qnntest.DLC("net", nil),
	}
}

// qnnCommand writes them.
func qnnCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: qnn")
	}
	for name, data := range qnnFiles() {
		ts.Check(os.WriteFile(ts.MkAbs(name), data, 0o644))
	}
}
