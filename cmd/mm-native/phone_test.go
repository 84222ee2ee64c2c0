package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"mm-abi.org/mm/lab/device/protocol"
	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/onnx/htp/htptest"
)

func TestMaxInput(t *testing.T) {
	for n, ok := range map[uint32]bool{1: true, maxInput / 4: true, maxInput/4 + 1: false} {
		in := htp.Tensor{DType: htp.Float32, Dims: []uint32{n}}
		if err := sized(in, 4*int64(n)); (err == nil) != ok {
			t.Errorf("%d bytes: %v", 4*int64(n), err)
		}
		if sized(in, 4*int64(n)+1) == nil {
			t.Errorf("%d bytes of %d accepted", 4*int64(n)+1, 4*int64(n))
		}
	}
}

// An error before a context runs is a result that the contract's reader accepts, with the stage and
// exit code 1.
func TestFailed(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("lib", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("lib", "libQnnSystem.so"), []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("context.bin", htptest.Context(htptest.Sample()), 0o600); err != nil {
		t.Fatal(err)
	}
	for libs, words := range map[string]string{"none": "missing libQnnSystem.so", "lib": "loading"} {
		var stdout, stderr bytes.Buffer
		call := protocol.Call{Program: "./mm-device", Context: "context.bin", Inputs: "in", Outputs: "out", Libs: libs, Nonce: "0123456789abcdef"}
		if code := runOnDevice(t.Context(), call.Words()[1:], &stdout, &stderr); code != 1 {
			t.Errorf("%s: exit %d: %s", libs, code, &stderr)
		}
		r, err := protocol.Parse(bytes.TrimSpace(stdout.Bytes()))
		if err != nil || r.Error == nil || r.Error.Stage != protocol.StageLibraries || !strings.Contains(r.Error.Message, words) {
			t.Errorf("%s: %v: %s", libs, err, &stdout)
		}
		if r.Nonce != call.Nonce || r.GoArch != runtime.GOARCH || r.Simulated != (runtime.GOARCH != "arm64") || r.Platform != (protocol.Platform{}) {
			t.Errorf("%+v", r)
		}
	}
	var stdout, stderr bytes.Buffer
	if code := runOnDevice(t.Context(), []string{"run", "--context", "x"}, &stdout, &stderr); code != 2 || stdout.Len() > 0 || !strings.Contains(stderr.String(), "are required") {
		t.Errorf("exit %d: %s%s", code, &stdout, &stderr)
	}
}
