package telemetry_test

import (
	"context"
	"runtime"
	"strconv"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/lab/telemetry"
)

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

// The hottest zone and the lowest battery count. Zones without a number are ignored, and so
// are power supplies that are not batteries.
func TestMachine(t *testing.T) {
	root := fstest.MapFS{
		"sys/class/thermal/thermal_zone0/temp": file("41250\n"),
		"sys/class/thermal/thermal_zone1/temp": file("39000\n"),
		"sys/class/thermal/thermal_zone2/temp": file("broken"),
		"sys/class/power_supply/AC/type":       file("Mains\n"),
		"sys/class/power_supply/AC/capacity":   file("1\n"),
		"sys/class/power_supply/BAT0/type":     file("Battery\n"),
		"sys/class/power_supply/BAT0/capacity": file("83\n"),
		"sys/class/power_supply/BAT0/temp":     file("325\n"),
		"sys/class/power_supply/BAT1/type":     file("Battery\n"),
		"sys/class/power_supply/BAT1/capacity": file("17\n"),
		"proc/meminfo":                         file("MemTotal: 4096 kB\nMemAvailable: 2048 kB\n"),
	}
	r, err := telemetry.Machine{Root: root, Dir: t.TempDir()}.Read(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if (r.DiskMiB == nil || *r.DiskMiB <= 0) && runtime.GOOS == "linux" {
		t.Errorf("disk: %v", r.DiskMiB)
	}
	r.DiskMiB = nil
	want := telemetry.Reading{HeatC: new(41.25), BatteryPct: new(17.0), BatteryC: new(32.5), MemoryMiB: new(2.0)}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
	none, _ := telemetry.Machine{Root: fstest.MapFS{}, Dir: t.TempDir() + "/none"}.Read(context.Background())
	if diff := cmp.Diff(telemetry.Reading{}, none); diff != "" {
		t.Errorf("a machine without sensors: %s", diff)
	}
}

// Zones use thousandths of a degree or degrees. Implausible values are nil, so that a limit
// on them has no sensor.
func TestZone(t *testing.T) {
	for text, want := range map[string]*float64{
		"41250\n": new(41.25), "47": new(47.0), "1000": nil, "-5000": new(-5.0), "-12": new(-12.0), "0": new(0.0),
		"-274000": nil, "-60000": nil, "200": nil, "199": new(199.0), "2147483647": nil, "": nil, "broken": nil, "41.5": nil,
	} {
		if diff := cmp.Diff(want, telemetry.Zone(text)); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
	for _, tc := range []struct {
		value int
		ok    bool
	}{{telemetry.MinCelsius, false}, {telemetry.MinCelsius + 1, true}, {telemetry.MaxCelsius - 1, true}, {telemetry.MaxCelsius, false}} {
		if got := telemetry.Zone(strconv.Itoa(tc.value)); (got != nil) != tc.ok {
			t.Errorf("%d: %v", tc.value, got)
		}
	}
	root := fstest.MapFS{
		"sys/class/thermal/thermal_zone0/temp":   file("48\n"),
		"sys/class/thermal/thermal_zone1/temp":   file("46000\n"),
		"sys/class/thermal/thermal_zone2/temp":   file("255000\n"),
		"sys/class/power_supply/BAT0/type":       file("Battery\n"),
		"sys/class/power_supply/BAT0/temp":       file("9999\n"),
		"sys/class/power_supply/BAT0/capacity":   file("-1\n"),
		"sys/class/power_supply/BAT0/technology": file("Li-ion\n"),
	}
	r, err := telemetry.Machine{Root: root, Dir: t.TempDir() + "/none"}.Read(context.Background())
	if diff := cmp.Diff(telemetry.Reading{HeatC: new(48.0)}, r); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestCurve(t *testing.T) {
	var now time.Duration
	c := telemetry.Curve{Now: func() time.Duration { return now }, Points: []telemetry.Point{
		{At: time.Minute, Reading: telemetry.Reading{HeatC: new(30.0), BatteryPct: new(90.0)}},
		{At: 2 * time.Minute, Reading: telemetry.Reading{HeatC: new(40.0), BatteryPct: new(80.0)}},
		{At: 3 * time.Minute, Reading: telemetry.Reading{HeatC: new(20.0)}},
	}}
	for at, want := range map[time.Duration]string{
		0:                 "30.0 °C, battery 90 %",
		time.Minute:       "30.0 °C, battery 90 %",
		75 * time.Second:  "32.5 °C, battery 88 %",
		2 * time.Minute:   "40.0 °C, battery 80 %",
		150 * time.Second: "30.0 °C",
		time.Hour:         "20.0 °C",
	} {
		now = at
		if r, _ := c.Read(context.Background()); r.String() != want {
			t.Errorf("at %v: %s, want %s", at, r, want)
		}
	}
}
