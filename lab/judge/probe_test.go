package judge_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/lab/judge"
	"mm-abi.org/mm/onnx/htp"
)

var phone = map[string]string{
	judge.DevicesFile: "* daemon started successfully\nList of devices attached\nR5CX product:nx789 model:NX789J device:x transport_id:4\nR5CX\tdevice product:nx789 model:NX789J device:NX789J transport_id:4\n\n",
	judge.PropFile:    "[ro.product.model]: [NX789J]\r\n[ro.soc.model]: [SM8750]\n[ro.board.platform]: [sun]\n[ro.build.version.release]: [15]\n[ro.product.cpu.abi]: [arm64-v8a]\nbroken line\n[x]: [a]b]\n",
	judge.MemoryFile:  "MemTotal:       16777216 kB\nMemFree: 1 kB\nHugePages_Total: 0\n",
	judge.BatteryFile: "Current Battery Service state:\n  AC powered: false\n  USB powered: true\n  level: 84\n  temperature: 315\n",
	judge.DiskFile:    "Filesystem 1K-blocks Used Available Use% Mounted on\n/dev/block/dm-9 100 50 2097152 50% /data\n/dev/x 1 1 5 1% /data/y\n",
	judge.ThermalFile: "cpu-0 41250\nskin -1000\nbroken x\n",
	judge.PythonFile:  "Python 3.12.4\n",
}

func writeProbe(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestRead(t *testing.T) {
	got, err := judge.ReadEnvelope(writeProbe(t, phone), htp.KnownChips())
	if err != nil {
		t.Fatal(err)
	}
	want := judge.Envelope{
		Attached: true, Devices: []judge.Device{{Serial: "R5CX", State: "device", Transport: "4", Extra: map[string]string{"product": "nx789", "model": "NX789J", "device": "NX789J"}}},
		Model: "NX789J", Android: "15", ABI: "arm64-v8a", Reported: "SM8750", Target: judge.Target{SoC: "SM8750", Confidence: 1}, QNN: true,
		RAMGiB: new(16.0), StorageGiB: new(2.0), BatteryPct: new(84.0), BatteryC: new(31.5), Powered: new(true), HottestC: new(41.25), Python: "3.12.4", Absent: []string{},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// Missing files are listed, and their values stay empty.
	got, err = judge.ReadEnvelope(writeProbe(t, map[string]string{judge.DevicesFile: "List of devices attached\nA unauthorized\nB device\n", judge.BatteryFile: "level: NaN\n"}), htp.KnownChips())
	if err != nil || got.Attached || got.QNN || got.RAMGiB != nil || got.BatteryPct != nil || got.Powered != nil || len(got.Absent) != 5 || len(got.Devices) != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := judge.ReadEnvelope(t.TempDir(), htp.KnownChips()); err == nil {
		t.Error("read an empty folder")
	}
}

// Zones may use degrees, and implausible values are ignored.
func TestHottest(t *testing.T) {
	for text, want := range map[string]*float64{"cpu 47\ngpu 41250\nnone -274000\n": new(47.0), "cpu 2147483\n": nil} {
		got, err := judge.ReadEnvelope(writeProbe(t, map[string]string{judge.ThermalFile: text}), htp.KnownChips())
		if diff := cmp.Diff(want, got.HottestC); diff != "" || err != nil {
			t.Errorf("%q: %s %v", text, diff, err)
		}
	}
}

// Only the number of a known chip is certain.
func TestResolve(t *testing.T) {
	for text, want := range map[string]judge.Target{
		"SM8750": {SoC: "SM8750", Confidence: 1}, "Qualcomm sm8650-AC": {SoC: "SM8650", Confidence: 1}, "SM8850": {SoC: "SM8850", Confidence: 1},
		"Snapdragon 8 Gen 3": {SoC: "SM8650", Confidence: 0.9}, "Snapdragon 8  Elite": {SoC: "SM8750", Confidence: 0.6}, "Snapdragon 8 Elite Gen 5": {SoC: "SM8850", Confidence: 0.9},
		"SM9999": {}, "XSM8750": {}, "SM87501": {}, "SM8650 or SM8750": {}, "": {}, "Exynos": {},
	} {
		if got := judge.Resolve(text, htp.KnownChips()); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, text := range phone {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		files := map[string]string{}
		for name := range phone {
			files[name] = text
		}
		e, err := judge.ReadEnvelope(writeProbe(t, files), htp.KnownChips())
		if err != nil || e.QNN && e.Target.SoC == "" {
			t.Fatalf("%+v, %v", e, err)
		}
	})
}
