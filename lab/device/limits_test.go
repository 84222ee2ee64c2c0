package device_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/lab/device"
)

// A state at the limits is ready, one beyond is not.
func TestReady(t *testing.T) {
	battery := func(level int, celsius float64) device.Probe {
		return device.Probe{Battery: device.Battery{Known: true, Level: level, Celsius: celsius}}
	}
	zone := func(celsius float64) device.Probe {
		return device.Probe{Zones: []device.Zone{{Name: "npu", Celsius: celsius}}}
	}
	for name, tc := range map[string]struct {
		probe device.Probe
		code  diag.Code
	}{
		"MinBattery":       {battery(device.MinBattery, 20), ""},
		"below MinBattery": {battery(device.MinBattery-1, 20), diag.DeviceBattery},
		"MaxBattery":       {battery(50, device.MaxBattery), ""},
		"above MaxBattery": {battery(50, device.MaxBattery+0.1), diag.DeviceHot},
		"MaxZone":          {zone(device.MaxZone), ""},
		"above MaxZone":    {zone(device.MaxZone + 0.1), diag.DeviceHot},
	} {
		if got := first(device.Ready(&device.Device{}, tc.probe, device.MinBattery).Err()); got != tc.code {
			t.Errorf("%s: %q, want %q", name, got, tc.code)
		}
	}
	powered := battery(1, 20)
	powered.Battery.Powered = true
	if l := device.Ready(&device.Device{}, powered, device.MinBattery); len(l) > 0 {
		t.Errorf("powered: %v", l)
	}
}

// The limits of the files of a run, and of the outputs of a device's commands.
func TestLimits(t *testing.T) {
	w := newWorld(t, double, 4096)
	big := filepath.Join(t.TempDir(), "big.bin")
	if err := os.WriteFile(big, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for size, tooLarge := range map[int64]bool{device.MaxContext: false, device.MaxContext + 1: true} {
		if err := os.Truncate(big, size); err != nil { // sparse
			t.Fatal(err)
		}
		if _, _, err := (device.Job{Context: big}).Open(); err == nil || strings.Contains(err.Error(), "too large") != tooLarge {
			t.Errorf("MaxContext: %d bytes: %v", size, err)
		}
	}
	have, err := filepath.Glob(filepath.Join(w.kit.Libs, "*.so"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range device.MaxLibs + 1 - len(have) {
		if err := os.WriteFile(filepath.Join(w.kit.Libs, fmt.Sprintf("x%d.cat", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if n := len(have) + i + 1; n < device.MaxLibs {
			continue
		} else if _, err := w.job.Plan(t.Context(), w.device); (err == nil) != (n == device.MaxLibs) {
			t.Errorf("MaxLibs: %d libraries: %v", n, err)
		}
	}
	zone := device.Zone{Name: strings.Repeat("x", 100), Celsius: 40}
	if text := device.Thermal(slices.Repeat([]device.Zone{zone}, device.MaxRaw/len(zone.Name))); len(text) > device.MaxRaw || len(text) < device.MaxRaw-200 {
		t.Errorf("MaxRaw: %d bytes", len(text))
	}
	var props strings.Builder
	for i := range device.MaxLines + 1 {
		fmt.Fprintf(&props, "[%d]: [x]\n", i)
	}
	if got := device.ParseProperties(props.String()); len(got) != device.MaxLines {
		t.Errorf("MaxLines: %d properties", len(got))
	}
}

// flipping is a lane that alters the inputs of a run.
type flipping struct{ device.Lane }

func (f flipping) Put(ctx context.Context, path string, r io.Reader) error {
	if !strings.Contains(path, "/in/") {
		return f.Lane.Put(ctx, path, r)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	b[0] ^= 1
	return f.Lane.Put(ctx, path, strings.NewReader(string(b)))
}

// An altered input stops the run, which leaves no inputs behind.
func TestInputAltered(t *testing.T) {
	w := newWorld(t, double, 4096)
	w.device.Lane, w.job.Keep = flipping{w.device.Lane}, true
	if _, err := w.device.Run(t.Context(), w.job); first(err) != diag.PushDiffers {
		t.Errorf("%v", err)
	}
	if left := w.phone.List("/data/local/tmp/mm/runs"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}
