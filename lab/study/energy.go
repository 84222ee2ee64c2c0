package study

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Meter reads counters of energy.
type Meter interface {
	Read() (Energy, error)
}

// Energy is a reading of counters by name.
type Energy map[string]Counter

// Counter is a counter in microjoules that wraps after Range.
type Counter struct{ Value, Range uint64 }

// since returns the joules since an earlier reading, in which no counter wrapped twice.
func (e Energy) since(before Energy) float64 {
	sum := 0.0
	for _, name := range sortedKeys(e) {
		now, then := e[name], before[name]
		if now.Value < then.Value {
			now.Value += now.Range
		}
		sum += float64(now.Value-then.Value) / 1e6
	}
	return sum
}

// Packages reads the counters of the processor's packages (RAPL). Without a folder, it
// reads those of this machine.
type Packages struct{ Dir string }

// unknown is the [Meter] of trials that run elsewhere, or at the same time as others.
type unknown struct{}

// Read implements [Meter].
func (unknown) Read() (Energy, error) {
	return nil, errors.New("the energy of a trial that workers execute is unknown")
}

// powercap is the folder of the counters of Linux.
const powercap = "/sys/class/powercap"

// Read implements [Meter].
func (p Packages) Read() (Energy, error) {
	dir := p.Dir
	if dir == "" {
		dir = powercap
	}
	zones, err := filepath.Glob(filepath.Join(dir, "intel-rapl:[0-9]*"))
	if err != nil {
		return nil, err
	}
	out := Energy{}
	for _, zone := range zones {
		name := filepath.Base(zone)
		if strings.Count(name, ":") != 1 { // part of a package
			continue
		}
		var c Counter
		if c.Value, err = readCounter(filepath.Join(zone, "energy_uj")); err == nil {
			c.Range, err = readCounter(filepath.Join(zone, "max_energy_range_uj"))
		}
		if err != nil {
			return nil, fmt.Errorf("energy: %w", err)
		}
		out[name] = c
	}
	if len(out) == 0 {
		return nil, errors.New("energy: no counter in " + dir)
	}
	return out, nil
}

func readCounter(path string) (uint64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
}
