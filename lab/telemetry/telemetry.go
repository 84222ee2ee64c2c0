// Package telemetry reads what a machine feels: its heat, its battery, its free
// disk and memory.
//
// [Machine] reads them from Linux's /sys and /proc, [Curve] from a plan, for runs
// on a clock that is not real. What is not there is nil, never 0: nobody shall
// take a machine without a sensor for a cold one.
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

// Reading is one look at the sensors.
type Reading struct {
	HeatC      *float64 `json:"heat_c,omitempty"`      // the hottest zone, °C
	BatteryPct *float64 `json:"battery_pct,omitempty"` // the emptiest battery
	BatteryC   *float64 `json:"battery_c,omitempty"`   // the hottest battery, °C
	DiskMiB    *float64 `json:"disk_mib,omitempty"`    // free where the run writes
	MemoryMiB  *float64 `json:"memory_mib,omitempty"`  // available
}

// Machine reads this machine's sensors.
type Machine struct {
	Root fs.FS  // of /sys and /proc; nil: the machine's
	Dir  string // whose disk is asked
}

// Read implements the run's sensor. Sensors that cannot be read are absent.
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

// Zone reads what Linux says of a thermal zone: thousandths of a degree Celsius, or
// degrees on devices that say few. It is nil where that is no number, and where
// nothing is as cold or as hot: a sensor that says so is none.
func Zone(text string) *float64 {
	t := parse(strings.TrimSpace(text), 1)
	if t != nil && (*t > 1000 || *t < -1000) {
		*t /= 1000
	}
	return plausible(t)
}

// plausible is a heat in °C that there can be.
func plausible(t *float64) *float64 {
	if t == nil || *t <= -60 || *t >= 200 {
		return nil
	}
	return t
}

func (m Machine) glob(pattern string) []string {
	names, _ := fs.Glob(m.Root, pattern) // the patterns are ours
	return names
}

// text is the beginning of a small file, "" where it cannot be read.
func (m Machine) text(name string) string {
	f, err := m.Root.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	buf := make([]byte, 8<<10)
	n, _ := f.Read(buf) // sysfs gives a file in one piece
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

// Point is what a [Curve] holds at a time since its beginning.
type Point struct {
	At time.Duration
	Reading
}

// Curve is a day that never was: readings between whose points the values run
// straight. A value is absent from the first point that lacks it on.
type Curve struct {
	Points []Point              // ascending
	Now    func() time.Duration // since the beginning
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

// String is the reading for people.
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
