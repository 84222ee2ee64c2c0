package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/lab/device/evidence"
	"mm-abi.org/mm/lab/device/phonetest"
	"mm-abi.org/mm/lab/device/protocol"
)

// started starts the program that was pushed to a phone on this machine.
func started(ctx context.Context, call protocol.Call, stdout, stderr io.Writer) int {
	if err := os.Chmod(call.Program, 0o700); err != nil {
		fmt.Fprintln(stderr, err)
		return 126
	}
	c := exec.CommandContext(ctx, call.Program, call.Words()[1:]...)
	c.Dir, c.Stdout, c.Stderr = filepath.Dir(call.Program), stdout, stderr
	c.Env = []string{"LD_LIBRARY_PATH=" + call.Libs}
	err := c.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.ExitCode()
	} else if err != nil {
		fmt.Fprintln(stderr, err)
		return 126
	}
	return 0
}

// npuLibs is a folder as a phone has one: the libraries that emulate, and files in
// the place of the NPU's half, which emulation does not load.
func npuLibs(t *testing.T, libs, build string) {
	t.Helper()
	if err := os.Mkdir("lib", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"libQnnHtp.so", "libQnnSystem.so", "libc++*", "libunwind*"} {
		found, err := filepath.Glob(filepath.Join(libs, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %q, %v", pattern, found, err)
		}
		for _, path := range found {
			if err := os.Symlink(path, filepath.Join("lib", filepath.Base(path))); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, half := range []string{"Stub", "Skel"} {
		name := "libQnnHtpV79" + half + ".so"
		if err := os.WriteFile(filepath.Join("lib", name), fmt.Appendf(nil, "in the place of %s, %s", name, build), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// shownRun is what mm device run prints.
type shownRun struct {
	Record   evidence.Record
	Verdicts []evidence.Verdict
	Promotes bool
	Outputs  []struct {
		Sample int
		Name   string
		Shape  []int
		Most   *float32
	}
	Diagnostics []struct{ Code, Detail string }
}

// npuDevice takes the context of the vision encoder the whole way of a device:
// mm-native is pushed as the runner, with the libraries, and computes. The way is
// Android's own adb where it is there, and else the double of its server.
func npuDevice(t *testing.T, repo, dist, libs string) {
	_, c := npuContext(t, dist, "vision-enc")
	p := newPhone(t)
	p.Honest(false) // what the phone's system says hides nothing, and gives nothing away
	p.Exec = started
	again := npuLane(t, p)
	npuLibs(t, libs, c.Build)
	must(t, "keys", "generate", "--name", "lab", "--unencrypted")
	native, bin, onnx := os.Getenv("MM_NATIVE"), npuFile(t, dist, "vision-enc"), filepath.Join(repo, "catalog", "vision-enc", "vision_enc.onnx")
	job := []string{bin, "--runner", native, "--libs", "lib"}

	must(t, append([]string{"device", "plan"}, job...)...)
	p.CutAt(40 << 20)
	if stdout, stderr, code := mm(t, "device", "push", "lib/libQnnHtp.so"); code != diag.ExitUnavailable {
		t.Fatalf("a push that is cut: exit %d: %s%s", code, stdout, stderr)
	}
	again()
	var pushed []struct {
		Resumed int64 `json:"resumed_bytes"`
		Sent    int64 `json:"sent_bytes"`
	}
	if err := json.Unmarshal([]byte(must(t, "device", "push", "lib/libQnnHtp.so", "--json")), &pushed); err != nil || len(pushed) != 1 || pushed[0].Resumed < 32<<20 {
		t.Fatalf("%v: %+v", err, pushed)
	}
	t.Logf("a push that was cut goes on behind %d bytes with %d", pushed[0].Resumed, pushed[0].Sent)

	run := append(append([]string{"device", "run"}, job...), "--reference", onnx, "--repeat", "1", "--deadline", "5m", "--sign", keyFile("lab"), "--json")
	drawn := npuRun(t, append(run, "--samples", "2", "--out", "drawn.json")...)
	golden := filepath.Join(repo, "catalog", "vision-enc")
	given := npuRun(t, append(run, "--inputs", filepath.Join(repo, "catalog", "vision-proj", "chart.png"), "--inputs", "image="+filepath.Join(golden, "golden", "image.npy"), "--module", golden, "--outputs", "out")...)
	if outputs, _ := filepath.Glob("out/*/0.npy"); len(outputs) != 2 || given.Record.Drawn || !drawn.Record.Drawn {
		t.Errorf("%q, drawn %v and %v", outputs, drawn.Record.Drawn, given.Record.Drawn)
	}
	npuForged(t, drawn.Record)
}

// keyFile is the private key of a name in the home.
func keyFile(name string) string { return filepath.Join(os.Getenv("MM_HOME"), "keys", name+".key") }

// npuLane puts the phone behind adb. again brings it back after a cut.
func npuLane(t *testing.T, p *phonetest.Phone) (again func()) {
	t.Helper()
	t.Chdir(t.TempDir())
	if _, err := exec.LookPath("adb"); err != nil {
		t.Log("skipped: there is no adb; the double of its server is in its place")
		s := &phonetest.Server{Phones: []*phonetest.Phone{p}, States: map[string]string{}}
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		serverPort(t, s.Addr())
		return func() {}
	}
	server := phonetest.Real(t)
	d := &phonetest.Daemon{Phone: p}
	if err := d.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	server.Connect(t, d.Addr())
	serverPort(t, server.Addr)
	return func() { server.Again(t, d.Addr()) }
}

// npuRun runs on the phone. In emulation the outputs are the reference's, the
// platform is not the context's, and the record confirms nothing.
func npuRun(t *testing.T, args ...string) shownRun {
	t.Helper()
	stdout, stderr, code := mm(t, args...)
	var got shownRun
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != diag.ExitMissed {
		t.Fatalf("mm %v: exit %d: %s%s%v", args, code, stdout, stderr, err)
	}
	for _, d := range got.Diagnostics {
		if d.Code != "MM1251" {
			t.Errorf("%s: %s", d.Code, d.Detail)
		}
	}
	r := got.Record
	if r.Cosine == nil || *r.Cosine < 0.99 || len(got.Outputs) != 2 {
		t.Fatalf("cosine %v, %d outputs: %s", r.Cosine, len(got.Outputs), stdout)
	}
	for _, o := range got.Outputs {
		if o.Name != "patch_tokens" || !slices.Equal(o.Shape, []int{1, 64, 96}) || o.Most == nil || *o.Most == 0 {
			t.Errorf("%+v", o)
		}
	}
	if !r.Simulated || got.Promotes || r.SoC.Model != 30 || r.SoC.Arch != 68 || r.Runtime.GoArch != "amd64" || r.Signature == nil {
		t.Errorf("simulated %v, promotes %v, platform %+v, runtime %+v", r.Simulated, got.Promotes, r.SoC, r.Runtime)
	}
	t.Logf("qnn (emulated), %s: cosine %.6f over %d samples, HVX threads %v, %d of %d values beside the grid by at most %d, loading %d ms, inference %d ms, simulated %v",
		r.Runtime.Build, *r.Cosine, r.Samples, *r.HVXThreads, r.FP16Grid.Off, r.FP16Grid.Values, r.FP16Grid.MaxULP, r.Times.Load/1000, r.Times.Infer/1000, r.Simulated)
	return got
}

// npuForged takes back, one after the other, what a record of the emulation says
// against itself, and has it sealed and signed anew by a trusted key: what is left
// refuses it, until nothing of the run is left in it.
func npuForged(t *testing.T, r evidence.Record) {
	t.Helper()
	write := func(r evidence.Record) {
		data, err := json.Marshal(r)
		if err == nil {
			err = os.WriteFile("forged.json", data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	r.Simulated = false
	write(r) // the digest and the signature of what it was
	if _, stderr, code := mm(t, "device", "evidence", "forged.json"); code != diag.ExitRefused || !strings.Contains(stderr, "MM1253") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	if err := r.Seal(); err != nil {
		t.Fatal(err)
	}
	write(r)
	if _, stderr, code := mm(t, "device", "verify", "forged.json"); code != diag.ExitRefused || !strings.Contains(stderr, "MM1256") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	for _, c := range []struct {
		claim  string
		change func()
		fails  []string // the verdicts that refuse it then
	}{
		{"simulated is false", func() {}, []string{"on-device", "chip", "arch", "hvx", "fp16-grid"}},
		{"it has no signs", func() { r.Signs = []string{} }, []string{"on-device", "chip", "arch", "hvx", "fp16-grid"}},
		{"the runner is of a phone", func() { r.Runtime.GoArch = "arm64" }, []string{"on-device", "chip", "arch", "hvx", "fp16-grid"}},
		{"HVX threads were used", func() { r.HVXThreads = new(4) }, []string{"chip", "arch", "fp16-grid"}},
		{"the platform is the context's", func() { r.SoC = r.Binary.SoC }, []string{"fp16-grid"}},
	} {
		c.change()
		if err := r.Seal(); err != nil {
			t.Fatal(err)
		}
		write(r)
		must(t, "device", "sign", "forged.json", "--key", keyFile("lab"))
		must(t, "device", "verify", "forged.json")
		stdout, _, code := mm(t, "device", "evidence", "forged.json", "--json")
		var got shownRun
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != diag.ExitMissed || got.Promotes {
			t.Errorf("%s: exit %d, %v", c.claim, code, err)
		}
		var fails []string
		for _, v := range got.Verdicts {
			if v.Outcome != evidence.Pass && v.Outcome != evidence.Exempt && !strings.HasPrefix(v.Name, "check ") {
				fails = append(fails, v.Name)
			}
		}
		if !slices.Equal(fails, c.fails) {
			t.Errorf("%s: refused by %q, want %q", c.claim, fails, c.fails)
		}
		if _, stderr, code := mm(t, "lab", "backend", "promote", "litert_qnn", "forged.json", "--dir", "registry"); code != diag.ExitRefused || !strings.Contains(stderr, "does not show") {
			t.Errorf("%s: exit %d: %s", c.claim, code, stderr)
		}
		t.Logf("%s: refused by %s", c.claim, strings.Join(fails, ", "))
	}
}
