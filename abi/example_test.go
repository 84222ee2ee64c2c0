package abi_test

import (
	"fmt"

	"mm-abi.org/mm/abi"
)

// An encoder's output is connected to a projector that expects tokens of another width.
func ExampleConnect() {
	dim := func(name string) abi.Dim { return abi.Dim{Name: name} }
	out := abi.Port{Name: "patch_tokens", Shape: abi.Shape{dim("T_enc"), {Size: 512}}, DType: abi.FP16}
	in := abi.Port{Name: "patch_tokens", Shape: abi.Shape{dim("T_enc"), dim("D_enc")}, DType: abi.FP16}

	var b abi.Binding
	b.Set("vision-proj", "D_enc", 768, "params.D_enc")
	for _, m := range abi.Connect("vision-enc", out, "vision-proj", in, &b) {
		fmt.Println(m)
	}
	// Output: size of D_enc: 512 (vision-enc) against 768 (params.D_enc)
}
