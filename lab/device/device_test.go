package device_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/lab/device"
	"mm-abi.org/mm/lab/device/adb"
	"mm-abi.org/mm/lab/device/evidence"
	"mm-abi.org/mm/lab/device/phonetest"
	"mm-abi.org/mm/lab/device/protocol"
	"mm-abi.org/mm/onnx/htp"
)

// world is a phone, a connection to it, and a job.
type world struct {
	phone  *phonetest.Phone
	device *device.Device
	job    device.Job
	kit    phonetest.Kit
	again  func() // reconnects after a cut
}

// connection connects to a phone.
type connection func(t *testing.T, p *phonetest.Phone) (client adb.Client, serial string, again func())

func double(t *testing.T, p *phonetest.Phone) (adb.Client, string, func()) {
	t.Helper()
	s := &phonetest.Server{Phones: []*phonetest.Phone{p}}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return adb.Client{Addr: s.Addr()}, p.Serial, func() {}
}

func real(t *testing.T, p *phonetest.Phone) (adb.Client, string, func()) {
	t.Helper()
	server := phonetest.Real(t)
	d := &phonetest.Daemon{Phone: p}
	if err := d.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	server.Connect(t, d.Addr())
	return adb.Client{Addr: server.Addr}, d.Addr(), func() { server.Again(t, d.Addr()) }
}

// connections are the double of the server and Android's own.
var connections = map[string]connection{"double": double, "adb": real}

func newWorld(t *testing.T, w connection, size int) *world {
	t.Helper()
	p, err := phonetest.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	kit, err := phonetest.NewKit(t.TempDir(), size)
	if err != nil {
		t.Fatal(err)
	}
	client, serial, again := w(t, p)
	l, err := client.Lane(t.Context(), serial)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := device.OpenReference(t.Context(), kit.Model)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ref.Close() })
	return &world{phone: p, kit: kit, again: again,
		device: &device.Device{Lane: l, Chips: htp.KnownChips(), Segment: 64 << 10, Locks: t.TempDir(), Source: evidence.Source{Lane: "adb", Address: client.Address(), Serial: serial, Tool: "mm test"}},
		job: device.Job{Context: kit.Context, Runner: kit.Runner, Libs: kit.Libs, Count: 3, Repeat: 4, Nonce: "00112233445566778899aabbccddeeff", Time: "2026-01-02T03:04:05Z",
			Reference: ref, Engine: device.ReferenceEngine, Model: ref.Digest},
	}
}

// The complete run, over the double and over Android's adb.
func TestRun(t *testing.T) {
	for name, w := range connections {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, w, 300<<10)
			plan, err := w.job.Plan(t.Context(), w.device)
			if err != nil || plan.Faults.Failed() || len(plan.Push) != 8 || plan.Bytes < 300<<10 || plan.Need != plan.Bytes+w.device.Segment+3*(256+128) {
				t.Fatalf("%+v, %v", plan, err)
			}
			if len(w.phone.List("/data/local/tmp")) != 0 {
				t.Errorf("a plan left %q", w.phone.List("/data/local/tmp"))
			}
			out, err := w.device.Run(t.Context(), w.job)
			if err != nil {
				t.Fatal(err)
			}
			r := out.Record
			if r.Cosine == nil || *r.Cosine < 0.999999 || len(r.Outputs) != 3 || r.Samples != 3 || r.Times.Infer != 701 || r.Times.Inferences != 12 {
				t.Errorf("%+v", r)
			}
			if r.Runtime.Backend != "qnn_direct" || r.Runtime.Build != w.phone.Build {
				t.Errorf("computed by %+v", r.Runtime)
			}
			if out.Promotes || !r.Simulated || len(r.Signs) != 3 {
				t.Errorf("emulated phone: promotes %v, simulated %v by %q", out.Promotes, r.Simulated, r.Signs)
			}
			if g := r.FP16Grid; g.Values != 96 || g.Off != 96 || g.MaxULP != 1 {
				t.Errorf("grid of an emulation: %+v", g)
			}
			// The eight pushed files stay; the inputs do not.
			if left := w.phone.List("/data/local/tmp/mm"); len(left) != 1+len(plan.Push) || left[0] != "/data/local/tmp/mm/.mm-folder" || !strings.HasPrefix(left[1], "/data/local/tmp/mm/sha256/") {
				t.Errorf("left on the device: %q", left)
			}
			// The second run sends only its inputs.
			before := w.phone.Received()
			w.job.Nonce = "ffeeddccbbaa99887766554433221100"
			w.job.Before = []evidence.Record{r}
			if _, err = w.device.Run(t.Context(), w.job); err != nil {
				t.Fatal(err)
			}
			if sent := w.phone.Received() - before; sent != 3*256 {
				t.Errorf("a second run sent %d bytes, its inputs have 768", sent)
			}
			if err := w.device.Remove(t.Context()); err != nil || len(w.phone.List("/data/local/tmp/mm")) != 0 {
				t.Errorf("%v, %q", err, w.phone.List("/data/local/tmp/mm"))
			}
		})
	}
}

// A phone that hides that it is emulated is detected by its runner. Without any sign it
// passes as a phone.
func TestPretend(t *testing.T) {
	w := newWorld(t, double, 4096)
	w.phone.Honest(false)
	w.job.Nonce = ""
	out, err := w.device.Run(t.Context(), w.job)
	if err != nil || !out.Promotes || out.SoC != "SM8750" {
		t.Fatalf("does not promote: %v, %+v", err, out.Verdicts)
	}
	w.phone.Machine = "x86_64"
	if out, err = w.device.Run(t.Context(), w.job); err != nil || out.Promotes || !out.Record.Simulated {
		t.Errorf("an x86_64 kernel promotes: %v", err)
	}
}

// A chosen nonce proves nothing: outputs for the inputs drawn from it may have been
// prepared.
func TestNonce(t *testing.T) {
	w := newWorld(t, double, 4096)
	w.phone.Honest(false)
	outcome := func() *device.Outcome {
		t.Helper()
		out, err := w.device.Run(t.Context(), w.job)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	fresh := func(o *device.Outcome) evidence.Outcome { return o.Record.Checks[6].Outcome }
	one := outcome()
	if one.Promotes || one.Record.Drawn || fresh(one) != evidence.Pass {
		t.Errorf("promotes %v, drawn %v, fresh %s", one.Promotes, one.Record.Drawn, fresh(one))
	}
	w.phone.Break(phonetest.StaleOutput)
	w.job.Before = []evidence.Record{one.Record}
	if again := outcome(); again.Promotes || fresh(again) != evidence.Unknown {
		t.Errorf("same nonce: promotes %v, fresh %s", again.Promotes, fresh(again))
	}
	w.phone.Mend()
	w.job.Nonce += "0"
	longer := outcome()
	w.job.Nonce = w.job.Nonce[:32] + "1"
	if other := outcome(); other.Record.Inputs[0].SHA256 == longer.Record.Inputs[0].SHA256 {
		t.Error("equal inputs from two nonces")
	}
	w.job.Nonce, w.job.Samples = "", [][][]float32{{make([]float32, 64)}, {make([]float32, 64)}}
	w.job.Samples[0][0][0], w.job.Samples[1][0][0] = 1, 2
	inputs := outcome()
	w.job.Before = append(w.job.Before, inputs.Record)
	if again := outcome(); fresh(inputs) != evidence.Pass || again.Record.Drawn || fresh(again) != evidence.Unknown {
		t.Errorf("same inputs: drawn %v, fresh %s", again.Record.Drawn, fresh(again))
	}
}

// A phone may use another runner, whose results are simulated, too.
func TestExec(t *testing.T) {
	w := newWorld(t, double, 4096)
	w.job.Reference = nil
	w.phone.Exec = func(_ context.Context, c protocol.Call, stdout, _ io.Writer) int {
		libs, _ := filepath.Glob(filepath.Join(c.Libs, "*.so"))
		if data, err := os.ReadFile(c.Context); err != nil || len(data) < 4096 || len(libs) != 6 {
			return 9
		}
		res := protocol.Result{Schema: protocol.Schema, Nonce: c.Nonce, GoArch: "arm64", Platform: protocol.Platform{SoC: 69, Arch: 79}, Times: protocol.Times{Infer: []int64{1}}}
		for s := range 3 {
			in, err := os.ReadFile(filepath.Join(c.Inputs, protocol.File(s, 0)))
			if err == nil {
				err = os.MkdirAll(filepath.Dir(filepath.Join(c.Outputs, protocol.File(s, 0))), 0o700)
			}
			if err == nil {
				err = os.WriteFile(filepath.Join(c.Outputs, protocol.File(s, 0)), in[:128], 0o600)
			}
			if err != nil {
				return 10
			}
			res.Outputs = append(res.Outputs, protocol.Output{Sample: s, Name: "y", Bytes: 128})
		}
		if err := json.NewEncoder(stdout).Encode(res); err != nil {
			return 11
		}
		return 0
	}
	out, err := w.device.Run(t.Context(), w.job)
	if err != nil || out.Promotes || !out.Record.Simulated || len(out.Record.Outputs) != 3 {
		t.Errorf("%v, %+v", err, out)
	}
}

// aged is a lane that reports old outputs.
type aged struct{ device.Lane }

func (a aged) Stat(ctx context.Context, path string) (protocol.Info, error) {
	info, err := a.Lane.Stat(ctx, path)
	if strings.Contains(path, "/out/") {
		info.Time -= 3600
	}
	return info, err
}

// Outputs from before the run are stale, and a chip of another architecture differs.
func TestOldOutputs(t *testing.T) {
	w := newWorld(t, double, 4096)
	w.device.Lane = aged{w.device.Lane}
	if out, err := w.device.Run(t.Context(), w.job); first(err) != diag.OutputStale || out.Promotes {
		t.Errorf("%v", err)
	}
	w = newWorld(t, double, 4096)
	w.phone.Break(phonetest.LyingName)
	w.phone.SoC = 69
	if _, err := w.device.Run(t.Context(), w.job); first(err) != diag.PlatformDiffers {
		t.Errorf("%v", err)
	}
}

// altering is a lane that flips a bit of pulled files.
type altering struct{ device.Lane }

func (a altering) Get(ctx context.Context, path string, w io.Writer, limit int64) error {
	var b bytes.Buffer
	if err := a.Lane.Get(ctx, path, &b, limit); err != nil {
		return err
	}
	b.Bytes()[0] ^= 1
	_, err := w.Write(b.Bytes())
	return err
}

// Pulled outputs are compared with those on the device.
func TestAltered(t *testing.T) {
	w := newWorld(t, double, 4096)
	w.phone.Honest(false)
	w.job.Nonce, w.device.Lane = "", altering{w.device.Lane}
	out, err := w.device.Run(t.Context(), w.job)
	if l, _ := diag.From(err); len(l) != 3 || first(err) != diag.OutputDigest || !strings.Contains(l[2].Detail, "out/0002/0.raw: got sha256:") {
		t.Fatalf("%v", err)
	}
	if c := out.Record.Checks[0]; out.Promotes || c.Name != evidence.CheckDigest || c.Outcome != evidence.Fail || !strings.Contains(c.Detail, "out/0000/0.raw") {
		t.Errorf("promotes %v, %+v", out.Promotes, c)
	}
}

// An interrupted push resumes and sends only the rest.
func TestResume(t *testing.T) {
	for name, w := range connections {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, w, 1<<20)
			w.phone.Break(phonetest.Cut)
			f, err := device.NewFile("context.bin", w.kit.Context)
			if err != nil {
				t.Fatal(err)
			}
			_, err = w.device.Push(t.Context(), f)
			if code := first(err); code != diag.DeviceLost {
				t.Fatalf("%s: %v", code, err)
			}
			w.again()
			sent := w.phone.Received()
			done, err := w.device.Push(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			if done.Resumed != 4*64<<10 || done.Sent != f.Bytes-done.Resumed || w.phone.Received()-sent != done.Sent {
				t.Errorf("%+v of %d, %d received", done, f.Bytes, w.phone.Received()-sent)
			}
			if got, err := w.phone.ReadFile("/data/local/tmp/mm/sha256/" + strings.TrimPrefix(f.Digest, "sha256:")); err != nil || int64(len(got)) != f.Bytes {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			if done, err = w.device.Push(t.Context(), f); err != nil || !done.There || done.Sent != 0 {
				t.Errorf("%+v, %v", done, err)
			}
		})
	}
}

// Files on the device whose content does not match their name are replaced.
func TestPushForged(t *testing.T) {
	w := newWorld(t, double, 200<<10)
	f, err := device.NewFile("context.bin", w.kit.Context)
	if err != nil {
		t.Fatal(err)
	}
	hex := strings.TrimPrefix(f.Digest, "sha256:")
	forged := make([]byte, f.Bytes)
	host := strings.Repeat("0123", 4)
	if err := os.WriteFile(filepath.Join(w.device.Locks, "host"), []byte(host), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"/data/local/tmp/mm/sha256/" + hex, "/data/local/tmp/mm/part/" + hex + "-" + host} {
		if err := w.phone.WriteFile(file, forged); err != nil {
			t.Fatal(err)
		}
	}
	done, err := w.device.Push(t.Context(), f)
	if err != nil || done.There || done.Resumed != 0 || done.Sent != f.Bytes {
		t.Errorf("%+v, %v", done, err)
	}
	empty := t.TempDir() + "/empty"
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if f, err = device.NewFile("empty", empty); err == nil {
		done, err = w.device.Push(t.Context(), f)
	}
	if err != nil || done.Bytes != 0 {
		t.Errorf("%+v, %v", done, err)
	}
}

// first returns the code of the first fault in an error.
func first(err error) diag.Code {
	l, _ := diag.From(err)
	for _, d := range l {
		if d.Severity == diag.Error {
			return d.Code
		}
	}
	return ""
}

// Each fault of a phone has a code and a text, and prevents a promotion.
func TestFaults(t *testing.T) {
	codes := map[diag.Code]phonetest.Fault{}
	for _, tc := range faults {
		t.Run(string(tc.fault), func(t *testing.T) {
			t.Parallel() // many wait for the device
			w := newWorld(t, double, 400<<10)
			if tc.fault == phonetest.StaleOutput {
				out, err := w.device.Run(t.Context(), w.job)
				if err != nil {
					t.Fatal(err)
				}
				w.job.Before, w.job.Nonce = []evidence.Record{out.Record}, "0123456789abcdef"
			}
			w.phone.Honest(false) // only the fault prevents a promotion
			w.phone.Break(tc.fault)
			if tc.fault == phonetest.Hang {
				w.job.Deadline = time.Second
			}
			out, err := w.device.Run(t.Context(), w.job)
			if out != nil && out.Promotes {
				t.Error("promotes")
			}
			l, _ := diag.From(err)
			var texts []string
			found := false
			for _, d := range l {
				found = found || d.Code == tc.code
				texts = append(texts, d.String())
				if d.Hint == "" {
					t.Errorf("no hint: %s", d)
				}
			}
			if !found || !strings.Contains(strings.Join(texts, "\n"), tc.words) {
				t.Errorf("want %s with %q, got %v: %q", tc.code, tc.words, err, texts)
			}
			t.Logf("%s", texts[0])
		})
		if other, again := codes[tc.code]; again && tc.code != diag.ContextRefused && tc.code != diag.OutputCount && tc.code != diag.DeviceFull && tc.code != diag.RunnerBabbled {
			t.Errorf("%s and %s both have %s", other, tc.fault, tc.code)
		}
		codes[tc.code] = tc.fault
	}
}

var faults = []struct {
	fault phonetest.Fault
	code  diag.Code
	words string
}{
	{phonetest.WrongSoC, diag.TargetChip, "another chip"},
	{phonetest.WrongArch, diag.ContextRefused, "NPU v75"},
	{phonetest.LyingName, diag.PlatformDiffers, "v75 (57)"},
	{phonetest.Mismatch, diag.LibrariesMixed, "error 1008"},
	{phonetest.Refused, diag.ContextRefused, "error 5000"},
	{phonetest.NoSkel, diag.RunnerLibrary, "libQnnHtpV79Skel.so"},
	{phonetest.OutOfMemory, diag.DeviceMemory, "error 1002"},
	{phonetest.Execute, diag.RunFailed, "error 6001"},
	{phonetest.ShortOutput, diag.OutputSize, "got 124 bytes"},
	{phonetest.MissingOutput, diag.OutputCount, "missing out/"},
	{phonetest.ExtraOutput, diag.OutputCount, "out/0000/9.raw"},
	{phonetest.StaleOutput, diag.OutputStale, "other inputs and the same outputs"},
	{phonetest.StaleNonce, diag.RunnerBabbled, "result of run"},
	{phonetest.NaNOutput, diag.OutputNaN, "1 of 32 values"},
	{phonetest.ZeroOutput, diag.OutputZero, "out/0000/0.raw"},
	{phonetest.SameOutput, diag.OutputSame, "samples 0 and 1"},
	{phonetest.WrongOutput, diag.OutputDiffers, "cosine"},
	{phonetest.Hang, diag.RunDeadline, "ended after 1s"},
	{phonetest.Crash, diag.RunCrashed, "signal 11: Segmentation fault"},
	{phonetest.Babble, diag.RunnerBabbled, "runner result"},
	{phonetest.NotRunnable, diag.RunnerRefused, "Permission denied"},
	{phonetest.Unplug, diag.DeviceLost, "EMULATED01"},
	{phonetest.LowBattery, diag.DeviceBattery, "7 %"},
	{phonetest.Hot, diag.DeviceHot, "nsphvx-0 at 96.0 °C"},
	{phonetest.Locked, diag.DeviceLocked, "Required key"},
	{phonetest.ReadOnly, diag.DeviceReadOnly, "Read-only file system"},
	{phonetest.Full, diag.DeviceFull, "4096 bytes free"},
	{phonetest.NoSpaceLeft, diag.DeviceFull, "No space left"},
	{phonetest.Corrupt, diag.PushDiffers, "sent"},
}

// Faults of the connection to a device.
func TestUnreachable(t *testing.T) {
	p, err := phonetest.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	q, err := phonetest.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	q.Serial = "SECOND"
	s := &phonetest.Server{Phones: []*phonetest.Phone{p, q}, States: map[string]string{}}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := adb.Client{Addr: s.Addr()}
	for _, tc := range []struct {
		name, serial string
		states       map[string]string
		code         diag.Code
	}{
		{"two", "", nil, diag.DeviceMany},
		{"unknown", "THIRD", nil, diag.DeviceNone},
		{"unauthorized", "SECOND", map[string]string{"SECOND": "unauthorized"}, diag.DeviceUnauthorized},
		{"offline", "SECOND", map[string]string{"SECOND": "offline"}, diag.DeviceOffline},
		{"in recovery", "SECOND", map[string]string{"SECOND": "recovery"}, diag.DeviceOffline},
		{"none ready", "", map[string]string{"SECOND": "offline", p.Serial: "unauthorized"}, diag.DeviceMany},
	} {
		s.States = tc.states
		_, err := device.Choose(t.Context(), c, tc.serial)
		if first(err) != tc.code {
			t.Errorf("%s: %v, want %s", tc.name, err, tc.code)
		}
	}
	s.States = nil
	if l, err := device.Choose(t.Context(), c, "SECOND"); err != nil || l.Serial != "SECOND" {
		t.Errorf("%v", err)
	}
	p.Features = []string{"cmd"}
	if _, err := device.Choose(t.Context(), c, p.Serial); first(err) != diag.DeviceOld {
		t.Errorf("%v", err)
	}
	s.Phones = nil
	if _, err := device.Choose(t.Context(), c, ""); first(err) != diag.DeviceNone {
		t.Errorf("%v", err)
	}
	s.Close()
	if _, err := device.Choose(t.Context(), c, ""); first(err) != diag.DeviceServer {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := device.Choose(ctx, c, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if err := device.Fault("x", fmt.Errorf("plain")); err.Error() != "plain" {
		t.Errorf("%v", err)
	}
	// The title of the diagnostic is not repeated in its detail.
	for err, detail := range map[error]string{
		fmt.Errorf("%w: dial failed", protocol.ErrServer): "dial failed",
		fmt.Errorf("HOST: %w: cut", protocol.ErrLost):     "HOST: cut",
		fmt.Errorf("%w", protocol.ErrOffline):             "",
		fmt.Errorf("serial: %w", protocol.ErrOffline):     "serial",
	} {
		if l, _ := diag.From(device.Fault("x", err)); len(l) != 1 || l[0].Detail != detail {
			t.Errorf("%v: %+v, want %q", err, l, detail)
		}
	}
}
