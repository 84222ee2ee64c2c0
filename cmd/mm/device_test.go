package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/lab/device/evidence"
	"mm-abi.org/mm/lab/device/phonetest"
)

// deviceWorld is a folder with what a run needs and an adb server, the double of
// one or Android's own, that knows phones.
func deviceWorld(t *testing.T, phones ...*phonetest.Phone) *phonetest.Server {
	t.Helper()
	t.Setenv("MM_HOME", filepath.Join(t.TempDir(), "home"))
	t.Chdir(t.TempDir())
	if _, err := phonetest.NewKit(".", 300<<10); err != nil {
		t.Fatal(err)
	}
	s := &phonetest.Server{Phones: phones, States: map[string]string{}}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	serverPort(t, s.Addr())
	return s
}

func serverPort(t *testing.T, addr string) {
	t.Helper()
	t.Setenv("ANDROID_ADB_SERVER_PORT", addr[strings.LastIndexByte(addr, ':')+1:])
}

func newPhone(t *testing.T) *phonetest.Phone {
	t.Helper()
	p, err := phonetest.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// within runs the program within the test.
func within(line string) (code int, stdout, stderr string) {
	var out, err strings.Builder
	code = run(context.Background(), strings.Fields("mm "+line), strings.NewReader(""), &out, &err)
	return code, out.String(), err.String()
}

const runLine = "device run model.bin --runner mm-device --libs lib --reference model.onnx --deadline 1m"

// Each fault of a phone ends mm with the code of its kind and words of its own.
func TestDeviceFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: slow")
	}
	said := map[string]string{}
	for _, tc := range []struct {
		name   string
		breaks func(*testing.T, *phonetest.Server, *phonetest.Phone)
		line   string
		code   int
		words  string
	}{
		{"wrong arch", fault(phonetest.WrongArch), runLine, diag.ExitInvalid, "MM1233"},
		{"wrong SoC", fault(phonetest.WrongSoC), runLine, diag.ExitInvalid, "MM1112"},
		{"platform of another chip", fault(phonetest.LyingName), runLine, diag.ExitMissed, "MM1251"},
		{"error 1008", fault(phonetest.Mismatch), runLine, diag.ExitUnavailable, "error 1008"},
		{"error 5000", fault(phonetest.Refused), runLine, diag.ExitInvalid, "error 5000"},
		{"missing skel", fault(phonetest.NoSkel), runLine, diag.ExitUnavailable, "MM1231"},
		{"out of memory", fault(phonetest.OutOfMemory), runLine, diag.ExitUnavailable, "MM1234"},
		{"error 6001", fault(phonetest.Execute), runLine, diag.ExitFailure, "error 6001"},
		{"short output", fault(phonetest.ShortOutput), runLine, diag.ExitMissed, "MM1242"},
		{"missing output", fault(phonetest.MissingOutput), runLine, diag.ExitMissed, "missing out/"},
		{"extra output", fault(phonetest.ExtraOutput), runLine, diag.ExitMissed, "is not an output of the graph"},
		{"stale result", fault(phonetest.StaleNonce), runLine, diag.ExitFailure, "result of run"},
		{"stale output", func(t *testing.T, s *phonetest.Server, p *phonetest.Phone) {
			if code, out, err := within(runLine); code != exitOK {
				t.Fatalf("%d: %s%s", code, out, err)
			}
			p.Break(phonetest.StaleOutput)
		}, runLine, diag.ExitMissed, "MM1246"},
		{"NaN output", fault(phonetest.NaNOutput), runLine, diag.ExitMissed, "MM1243"},
		{"all-zero output", fault(phonetest.ZeroOutput), runLine, diag.ExitMissed, "MM1244"},
		{"same outputs", fault(phonetest.SameOutput), runLine, diag.ExitMissed, "MM1245"},
		{"wrong output", fault(phonetest.WrongOutput), runLine, diag.ExitMissed, "MM1247"},
		{"hang", fault(phonetest.Hang), strings.Replace(runLine, "1m", "1s", 1), diag.ExitMissed, "MM1236"},
		{"crash", fault(phonetest.Crash), runLine, diag.ExitFailure, "MM1237"},
		{"babble", fault(phonetest.Babble), runLine, diag.ExitFailure, "MM1239"},
		{"not executable", fault(phonetest.NotRunnable), runLine, diag.ExitUnavailable, "MM1238"},
		{"unplugged in a push", fault(phonetest.Unplug), runLine, diag.ExitUnavailable, "MM1206"},
		{"low battery", fault(phonetest.LowBattery), runLine, diag.ExitUnavailable, "MM1211"},
		{"hot", fault(phonetest.Hot), runLine, diag.ExitUnavailable, "MM1212"},
		{"locked storage", fault(phonetest.Locked), runLine, diag.ExitUnavailable, "MM1213"},
		{"read-only storage", fault(phonetest.ReadOnly), runLine, diag.ExitUnavailable, "MM1214"},
		{"full storage", fault(phonetest.Full), runLine, diag.ExitUnavailable, "MM1215"},
		{"storage fills up", fault(phonetest.NoSpaceLeft), runLine, diag.ExitUnavailable, "No space left"},
		{"wrong digest after push", fault(phonetest.Corrupt), runLine, diag.ExitRefused, "MM1221"},
		{"unauthorised", state("unauthorized"), runLine, diag.ExitUnavailable, "MM1204"},
		{"offline", state("offline"), runLine, diag.ExitUnavailable, "MM1205"},
		{"no server", func(t *testing.T, s *phonetest.Server, _ *phonetest.Phone) { s.Close() }, "device ls", diag.ExitUnavailable, "MM1201"},
		{"no device", func(t *testing.T, s *phonetest.Server, _ *phonetest.Phone) { s.Phones = nil }, "device probe", diag.ExitUnavailable, "MM1202"},
		{"another device", nil, "device probe --serial X", diag.ExitUnavailable, ": EMULATED01 (device)"},
		{"old device", func(_ *testing.T, _ *phonetest.Server, p *phonetest.Phone) { p.Features = []string{"cmd"} }, "device probe", diag.ExitUnavailable, "MM1207"},
		{"two devices", func(t *testing.T, s *phonetest.Server, _ *phonetest.Phone) {
			q := newPhone(t)
			q.Serial = "SECOND"
			s.Phones = append(s.Phones, q)
		}, "device probe", diag.ExitUsage, "MM1203"},
		{"a bad nonce", nil, runLine + " --nonce ../../x", diag.ExitFailure, "want 16 to 64 hex digits"},
		{"no samples", nil, runLine + " --samples 0", diag.ExitUsage, "--samples"},
		{"a path outside of the folder", nil, "device pull ../x --out y", diag.ExitUsage, "path outside of the folder on the device"},
		{"a folder of another program", nil, "device rm --folder /data/local/tmp", diag.ExitUsage, "/data/local/tmp has neither .mm-folder nor the folders of a push"},
		{"a relative folder", nil, "device push mm-device --folder relmm", diag.ExitUsage, `not an absolute folder: "relmm"`},
		{"nothing to pull", nil, "device pull x --out y", diag.ExitFailure, "MM1209"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newPhone(t)
			s := deviceWorld(t, p)
			if tc.breaks != nil {
				tc.breaks(t, s, p)
			}
			code, stdout, stderr := within(tc.line)
			if code != tc.code || !strings.Contains(stderr, tc.words) {
				t.Fatalf("exit %d, want %d with %q: %s%s", code, tc.code, tc.words, stdout, stderr)
			}
			if strings.Contains(stdout, "confirms SM8750") {
				t.Errorf("it confirms: %s", stdout)
			}
			line := stderr
			for l := range strings.Lines(stderr) {
				if strings.Contains(l, tc.words) {
					line = strings.TrimSpace(l)
				}
			}
			if other, again := said[line]; again {
				t.Errorf("%s says the same: %s", other, line)
			}
			said[line] = tc.name
			t.Logf("exit %d  %.150s", code, line)
		})
	}
}

func fault(f phonetest.Fault) func(*testing.T, *phonetest.Server, *phonetest.Phone) {
	return func(_ *testing.T, _ *phonetest.Server, p *phonetest.Phone) { p.Break(f) }
}

func state(name string) func(*testing.T, *phonetest.Server, *phonetest.Phone) {
	return func(_ *testing.T, s *phonetest.Server, p *phonetest.Phone) { s.States[p.Serial] = name }
}

// What a probe writes is what mm lab probe reads, and what the device does not say
// is not there from before.
func TestDeviceProbeFiles(t *testing.T) {
	p := newPhone(t)
	q := newPhone(t)
	q.Serial = "SECOND"
	deviceWorld(t, p, q)
	for _, zones := range []bool{true, false} {
		if !zones {
			p.Thermal = map[string]int{}
		}
		if code, stdout, stderr := within("device probe --serial EMULATED01 --out probed"); code != exitOK {
			t.Fatalf("%d: %s%s", code, stdout, stderr)
		}
		code, stdout, stderr := within("lab probe probed --json")
		var got struct {
			Attached   bool `json:"phone_attached"`
			Devices    []struct{ Serial, State string }
			Model      string               `json:"phone_model"`
			Target     struct{ SoC string } `json:"soc_target"`
			QNN        bool                 `json:"qnn_allowed"`
			RAMGiB     float64              `json:"ram_gib"`
			StorageGiB float64              `json:"storage_free_gib"`
			BatteryPct float64              `json:"battery_pct"`
			BatteryC   float64              `json:"battery_temp_c"`
			Powered    bool                 `json:"powered"`
			HottestC   float64              `json:"hottest_c"`
			Absent     []string             `json:"absent"`
		}
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != exitOK {
			t.Fatalf("%d, %v: %s%s", code, err, stdout, stderr)
		}
		if !got.Attached || got.Devices[0].Serial != "EMULATED01" || got.Model != "Emulated Phone" || got.Target.SoC != "SM8750" || !got.QNN || got.StorageGiB != 8 ||
			got.RAMGiB < 15 || got.BatteryPct != 80 || got.BatteryC != 28.1 || !got.Powered {
			t.Errorf("%+v", got)
		}
		absent, hottest := "python.txt", 38.2
		if !zones {
			absent, hottest = "thermal.txt python.txt", 0
		}
		if strings.Join(got.Absent, " ") != absent || got.HottestC != hottest {
			t.Errorf("absent %q, hottest %v", got.Absent, got.HottestC)
		}
	}
}

// A run leaves a record in the home and a line in the audit log that has its
// digest, and what the phone is makes it confirm nothing.
func TestDeviceRecord(t *testing.T) {
	p := newPhone(t)
	deviceWorld(t, p)
	code, stdout, stderr := within(runLine + " --out r.json --outputs out --json")
	if code != exitOK {
		t.Fatalf("%d: %s%s", code, stdout, stderr)
	}
	var shown struct {
		Record   evidence.Record
		Promotes bool
	}
	if err := json.Unmarshal([]byte(stdout), &shown); err != nil || shown.Promotes || !shown.Record.Simulated {
		t.Errorf("%v: %s", err, stdout)
	}
	log, err := os.Open(filepath.Join(os.Getenv("MM_HOME"), "audit.jsonl"))
	if err != nil {
		entries, _ := os.ReadDir(os.Getenv("MM_HOME"))
		t.Fatal(err, entries)
	}
	defer log.Close()
	var entry audit.Entry
	dec := json.NewDecoder(log)
	if err := dec.Decode(&entry); err != nil || dec.More() || entry.Action != "device" || entry.Digest != shown.Record.Digest || entry.Result != "ok" {
		t.Errorf("%+v, %v", entry, err)
	}
	if files, _ := filepath.Glob(filepath.Join(os.Getenv("MM_HOME"), "device", "evidence", "*.json")); len(files) != 1 {
		t.Errorf("%q", files)
	}
	if outputs, _ := filepath.Glob("out/*/0.raw"); len(outputs) != 3 {
		t.Errorf("%q", outputs)
	}
	if code, stdout, stderr = within("device evidence r.json"); code != diag.ExitMissed || !strings.Contains(stdout, "simulated: ro.kernel.qemu=1") || !strings.Contains(stderr, "MM1252") {
		t.Errorf("%d: %s%s", code, stdout, stderr)
	}
	text, err := os.ReadFile("r.json")
	if err != nil {
		t.Fatal(err)
	}
	lie := strings.Replace(string(text), `"simulated": true`, `"simulated": false`, 1)
	if lie == string(text) {
		t.Fatal("nothing to change")
	}
	if err := os.WriteFile("r.json", []byte(lie), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr = within("device evidence r.json"); code != diag.ExitRefused || !strings.Contains(stderr, "MM1253") {
		t.Errorf("%d: %s%s", code, stdout, stderr)
	}
}

// The same through Android's own adb: probe, plan, a push that is cut and goes
// on, run, pull, evidence.
func TestDeviceReal(t *testing.T) {
	server := phonetest.Real(t)
	p := newPhone(t)
	d := &phonetest.Daemon{Phone: p}
	if err := d.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	server.Connect(t, d.Addr())
	deviceWorld(t)
	serverPort(t, server.Addr)
	if _, err := phonetest.NewKit(".", 40<<20); err != nil { // three pieces of 16 MiB
		t.Fatal(err)
	}
	do := func(want int, line string) string {
		t.Helper()
		code, stdout, stderr := within(line)
		if code != want {
			t.Fatalf("mm %s: exit %d: %s%s", line, code, stdout, stderr)
		}
		t.Logf("mm %s\n%s%s", line, stdout, stderr)
		return stdout
	}
	do(exitOK, "device ls")
	do(exitOK, "device probe")
	do(exitOK, "device plan model.bin --runner mm-device --libs lib")
	p.CutAt(20 << 20)
	do(diag.ExitUnavailable, "device push model.bin")
	server.Again(t, d.Addr())
	var pushed []struct {
		Digest  string
		Resumed int64 `json:"resumed_bytes"`
		Sent    int64 `json:"sent_bytes"`
		Bytes   int64
	}
	if err := json.Unmarshal([]byte(do(exitOK, "device push model.bin --json")), &pushed); err != nil || len(pushed) != 1 || pushed[0].Resumed != 16<<20 || pushed[0].Sent != pushed[0].Bytes-16<<20 {
		t.Errorf("%+v, %v", pushed, err)
	}
	do(exitOK, runLine+" --out r.json")
	do(exitOK, "device pull sha256/"+strings.TrimPrefix(pushed[0].Digest, "sha256:")+" --out back.bin")
	do(diag.ExitMissed, "device evidence r.json")
	sent, _ := os.ReadFile("model.bin")
	back, _ := os.ReadFile("back.bin")
	if len(back) == 0 || string(sent) != string(back) {
		t.Errorf("%d bytes came back of %d", len(back), len(sent))
	}
	do(exitOK, "device rm")
	if left := p.List("/data/local/tmp/mm"); len(left) > 0 {
		t.Errorf("%q", left)
	}
}

// phoneCommand starts an emulated phone behind a double of the adb server for a
// script, writes what a run needs and sets the server's address.
func phoneCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 1 {
		ts.Fatalf("usage: phone [FAULT]")
	}
	dir, err := os.MkdirTemp("", "phone-")
	ts.Check(err)
	p, err := phonetest.New(dir)
	ts.Check(err)
	for _, f := range args {
		p.Break(phonetest.Fault(f))
	}
	s := &phonetest.Server{Phones: []*phonetest.Phone{p}}
	ts.Check(s.Start(context.Background()))
	ts.Defer(func() {
		s.Close()
		p.Close()
		os.RemoveAll(dir)
	})
	_, err = phonetest.NewKit(ts.MkAbs("."), 4096)
	ts.Check(err)
	ts.Setenv("ANDROID_ADB_SERVER_PORT", fmt.Sprint(s.Addr()[strings.LastIndexByte(s.Addr(), ':')+1:]))
}
