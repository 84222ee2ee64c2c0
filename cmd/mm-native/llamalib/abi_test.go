package llamalib

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"mm-abi.org/mm/cmd/mm-native/dynlib"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/runtimes/runtimetest"
)

func TestVersions(t *testing.T) {
	for version, known := range map[string]bool{
		"0.5.0": true, "0.5.0-dev": true, "v0.5.3": true, "0.4.9": false, "0.6.0": false, "1.5.0": false, "": false, "b11118": false, "0.5": false, "99999.5.0": false,
	} {
		if _, err := layoutOf(version); (err == nil) != known {
			t.Errorf("%q: %v", version, err)
		}
	}
}

// field returns the defaults that a library of the layout writes.
func field(l layout) []byte {
	b := bytes.Repeat([]byte{canary}, canaryBytes)
	if !returnsByArgument {
		clear(b)
	}
	clear(b[:l.model])
	for at, v := range l.modelAt {
		binary.LittleEndian.PutUint32(b[at:], v)
	}
	for at, v := range l.modelByte {
		b[at] = v
	}
	return b
}

// An added, removed or changed field is detected.
func TestProbe(t *testing.T) {
	l := layouts()[[2]int{0, 5}]
	judge := func(b []byte) error { return probe("params", b, l.model, l.modelAt, l.modelByte) }
	if err := judge(field(l)); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(b []byte) []byte{
		"a number put in":    func(b []byte) []byte { return append(append(bytes.Clone(b[:28]), 0, 0, 0, 0), b[28:]...) },
		"a number taken out": func(b []byte) []byte { return append(bytes.Clone(b[:28]), b[32:]...) },
		"another default":    func(b []byte) []byte { b[16] = 7; return b },
		"another flag":       func(b []byte) []byte { b[74] = 0; return b },
		"a longer one":       func(b []byte) []byte { b[l.model] = 1; return b },
	} {
		if err := judge(change(field(l))); err == nil {
			t.Errorf("%s is not noticed", name)
		}
	}
}

// The installed library matches the layout of its version and no other.
func TestLibrary(t *testing.T) {
	lib, err := dynlib.Open(runtimetest.Libraries(t, native.LlamaCPP), "libllama.v*.so*")
	if err != nil {
		// Open loads its dependencies.
		if _, err := Open(runtimetest.Libraries(t, native.LlamaCPP)); err != nil {
			t.Fatal(err)
		}
		if lib, err = dynlib.Open(runtimetest.Libraries(t, native.LlamaCPP), "libllama.v*.so*"); err != nil {
			t.Fatal(err)
		}
	}
	if err := check(lib, "0.5.0-dev"); err != nil {
		t.Error(err)
	}
	if err := check(lib, "0.9.0"); err == nil || !strings.Contains(err.Error(), "0.9.0") {
		t.Errorf("a version that is not known: %v", err)
	}
	p, err := lib.Symbol("llama_model_default_params")
	if err != nil {
		t.Fatal(err)
	}
	l := layouts()[[2]int{0, 5}]
	if err := probe("params", defaults(p), l.context, l.contextAt, l.contextOn); err == nil {
		t.Error("the structure of a model passes for that of a context")
	}
}
