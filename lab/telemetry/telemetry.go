// Package telemetry reads the sensors of a machine: temperature, battery, free disk space
// and memory.
//
// [Machine] reads Linux's /sys and /proc, [Curve] a plan, for simulated runs. A missing
// value is nil, not 0: a machine without a sensor must not pass for a cold one.
package telemetry

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Reading holds the values of the sensors.
type Reading struct {
	HeatC      *float64 `json:"heat_c,omitempty"`      // the hottest zone, °C
	BatteryPct *float64 `json:"battery_pct,omitempty"` // the lowest battery
	BatteryC   *float64 `json:"battery_c,omitempty"`   // the hottest battery, °C
	DiskMiB    *float64 `json:"disk_mib,omitempty"`    // free where the run writes
	MemoryMiB  *float64 `json:"memory_mib,omitempty"`  // available
}

// Machine reads the sensors of this machine.
type Machine struct {
	Root fs.FS  // contains sys and proc; if nil, that of the machine
	Dir  string // folder whose disk is measured
}

// Read implements the sensor of a run. Values that cannot be read are nil.
func (m Machine) Read(context.Context) (Reading, error) {
	if m.Root == nil {
		m.Root = os.DirFS("/")
	}
	var r Reading
	if free, ok := freeMiB(m.Dir); ok {
		r.DiskMiB = &free
	}
	for _, zone := range m.glob("sys/class/thermal/thermal_zone*") {
		r.HeatC = highest(r.HeatC, Zone(m.text(path.Join(zone, "temp"))))
	}
	for _, supply := range m.glob("sys/class/power_supply/*") {
		if m.text(path.Join(supply, "type")) != "Battery" {
			continue
		}
		if pct := m.number(path.Join(supply, "capacity"), 1); pct != nil && *pct >= 0 && *pct <= 100 && (r.BatteryPct == nil || *pct < *r.BatteryPct) {
			r.BatteryPct = pct
		}
		r.BatteryC = highest(r.BatteryC, plausible(m.number(path.Join(supply, "temp"), 10))) // tenths of a degree
	}
	r.HeatC = highest(r.HeatC, r.BatteryC)
	for line := range strings.Lines(m.text("proc/meminfo")) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "MemAvailable:" && f[2] == "kB" {
			r.MemoryMiB = parse(f[1], 1024)
		}
	}
	return r, nil
}

// Zone parses the temperature of a Linux thermal zone: thousandths of a degree Celsius, or
// degrees on some devices. It returns nil for other text and for implausible values, which
// broken sensors report.
func Zone(text string) *float64 {
	t := parse(strings.TrimSpace(text), 1)
	if t != nil && (*t > 1000 || *t < -1000) {
		*t /= 1000
	}
	return plausible(t)
}

// The exclusive limits of plausible temperatures in °C.
const (
	minCelsius = -60
	maxCelsius = 200
)

// plausible returns nil unless t is a plausible temperature in °C.
func plausible(t *float64) *float64 {
	if t == nil || *t <= minCelsius || *t >= maxCelsius {
		return nil
	}
	return t
}

func (m Machine) glob(pattern string) []string {
	names, _ := fs.Glob(m.Root, pattern) // the patterns are valid
	return names
}

// text returns the start of a small file, or "" if it cannot be read.
func (m Machine) text(name string) string {
	f, err := m.Root.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	buf := make([]byte, 8<<10)
	n, _ := f.Read(buf) // sysfs returns a file in one read
	return strings.TrimSpace(string(buf[:n]))
}

func (m Machine) number(name string, unit float64) *float64 { return parse(m.text(name), unit) }

func parse(text string, unit float64) *float64 {
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil
	}
	scaled := float64(v) / unit
	return &scaled
}

func highest(a, b *float64) *float64 {
	if a == nil || b != nil && *b > *a {
		return b
	}
	return a
}

// Point is a point of a [Curve].
type Point struct {
	At time.Duration
	Reading
}

// Curve interpolates linearly between points. A value is nil from the first point that
// lacks it.
type Curve struct {
	Points []Point              // ascending
	Now    func() time.Duration // time since the start
}

// Read returns the values at the present moment.
func (c Curve) Read(context.Context) (Reading, error) {
	if len(c.Points) == 0 {
		return Reading{}, nil
	}
	now := c.Now()
	i, _ := slices.BinarySearchFunc(c.Points, now, func(p Point, at time.Duration) int { return int(min(max(p.At-at, -1), 1)) })
	if i == 0 {
		return c.Points[0].Reading, nil
	}
	if i == len(c.Points) {
		return c.Points[i-1].Reading, nil
	}
	a, b := c.Points[i-1], c.Points[i]
	share := float64(now-a.At) / float64(b.At-a.At)
	between := func(x, y *float64) *float64 {
		if x == nil || y == nil {
			return nil
		}
		v := *x + share*(*y-*x)
		return &v
	}
	return Reading{between(a.HeatC, b.HeatC), between(a.BatteryPct, b.BatteryPct), between(a.BatteryC, b.BatteryC),
		between(a.DiskMiB, b.DiskMiB), between(a.MemoryMiB, b.MemoryMiB)}, nil
}

// String returns the reading as text.
func (r Reading) String() string {
	var parts []string
	add := func(v *float64, format string) {
		if v != nil {
			parts = append(parts, fmt.Sprintf(format, *v))
		}
	}
	add(r.HeatC, "%.1f °C")
	add(r.BatteryPct, "battery %.0f %%")
	add(r.DiskMiB, "%.0f MiB of disk")
	add(r.MemoryMiB, "%.0f MiB of memory")
	return strings.Join(parts, ", ")
}
