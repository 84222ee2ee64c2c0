package protocol_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/lab/device/protocol"
)

func TestCall(t *testing.T) {
	for _, c := range []protocol.Call{
		{Program: "/d/p", Context: "c", Inputs: "in", Outputs: "out", Nonce: "00", Repeat: 1},
		{Program: "/d/p", Context: "c", Inputs: "in", Outputs: "out", Nonce: "00", Repeat: 9, Libs: "lib", Graph: "a graph"},
	} {
		got, err := protocol.ParseCall(c.Words())
		if err != nil || got != c {
			t.Errorf("%s: %v", cmp.Diff(c, got), err)
		}
	}
	for _, bad := range []string{"", "p", "p walk", "p run", "p run --context c --inputs i --outputs o", "p run --context c --inputs i --outputs o --nonce 1 --repeat 0", "p run --context c --inputs i --outputs o --nonce 1 --what x", "p run --context c --inputs i --outputs o --nonce"} {
		if _, err := protocol.ParseCall(strings.Fields(bad)); err == nil {
			t.Errorf("%q accepted", bad)
		}
	}
}

const complete = `{"schema":"mm.device.run/1","nonce":"00","simulated":true,"goarch":"arm64","version":"1","build":"v2.47.0.1","platform":{"soc_model":69,"arch":79},"hvx_threads":4,"graph":"main","times":{"load_us":5,"infer_us":[1,2]},"outputs":[{"sample":0,"index":0,"name":"y","bytes":4}]}`

func TestParse(t *testing.T) {
	r, err := protocol.Parse([]byte(complete + "\n"))
	if err != nil || r.Platform.SoC != 69 || *r.HVXThreads != 4 || len(r.Outputs) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	for name, bad := range map[string]string{
		"empty":          "",
		"leading line":   "Starting stage\n" + complete,
		"trailing word":  complete + "bandwidth",
		"truncated":      complete[:100],
		"unknown schema": strings.Replace(complete, "run/1", "run/2", 1),
		"negative time":  strings.Replace(complete, "[1,2]", "[1,-2]", 1),
		"negative load":  strings.Replace(complete, `"load_us":5`, `"load_us":-5`, 1),
		"duplicate output": strings.Replace(complete, `"outputs":[`,
			`"outputs":[{"sample":0,"index":0,"name":"z","bytes":4},`, 1),
		"negative size":  strings.Replace(complete, `"bytes":4`, `"bytes":-4`, 1),
		"sample too big": strings.Replace(complete, `"sample":0`, `"sample":10000`, 1),
		"negative index": strings.Replace(complete, `"index":0`, `"index":-1`, 1),
		"too long":       complete + strings.Repeat(" ", 5<<20),
	} {
		if r, err := protocol.Parse([]byte(bad)); err == nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(complete)
	f.Fuzz(func(t *testing.T, s string) {
		r, err := protocol.Parse([]byte(s))
		if err != nil {
			return
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		again, err := protocol.Parse(text)
		if err != nil || !cmp.Equal(len(r.Outputs), len(again.Outputs)) {
			t.Fatalf("%v", err)
		}
	})
}
