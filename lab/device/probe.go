package device

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/lab/device/evidence"
	"mm-abi.org/mm/lab/device/protocol"
	"mm-abi.org/mm/lab/telemetry"
)

// Probe holds the properties and the state of a device.
type Probe struct {
	Device  evidence.Device `json:"device"`
	Chip    *Chip           `json:"chip,omitempty"` // from the table of chips, nil if unknown
	Battery Battery         `json:"battery"`
	Zones   []Zone          `json:"thermal"`
	Memory  int64           `json:"memory_bytes"` // available; 0 if unknown
	Free    int64           `json:"free_bytes"`   // free storage; -1 if unknown
	// Signs are the signs that the device is emulated.
	Signs []string `json:"signs"`
	Raw   Raw      `json:"-"`
}

// Raw holds the outputs of the commands, each of at most maxRaw bytes and empty if the
// command failed.
type Raw struct {
	Properties string // getprop
	Memory     string // /proc/meminfo
	Battery    string // dumpsys battery
	Disk       string // df -k
	Thermal    string // lines of a zone and its temperature in thousandths of a degree
}

// maxRaw is the maximum size of each output in bytes.
const maxRaw = 1 << 20

// Chip is a row of the table of chips.
type Chip struct {
	Name  string `json:"name"`
	Model uint32 `json:"soc_model"`
	Arch  string `json:"arch"`
}

// Battery is the state of the battery. Known is false if there is none.
type Battery struct {
	Known   bool    `json:"known"`
	Level   int     `json:"level"` // percent
	Powered bool    `json:"powered"`
	Celsius float64 `json:"celsius"`
}

// Zone is a thermal zone.
type Zone struct {
	Name    string  `json:"name"`
	Celsius float64 `json:"celsius"`
}

// maxLines is the maximum number of parsed lines.
const maxLines = 1 << 16

// ParseProperties parses the output of getprop: lines of [key]: [value], where a value may
// span several lines.
func ParseProperties(text string) map[string]string {
	out := map[string]string{}
	key, value, open := "", "", false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if !open {
			var ok bool
			if key, value, ok = strings.Cut(line, "]: ["); !ok || !strings.HasPrefix(key, "[") {
				continue
			}
			key, open = key[1:], true
		} else {
			value += "\n" + line
		}
		if v, ok := strings.CutSuffix(value, "]"); ok {
			open = false
			if len(out) < maxLines {
				out[key] = v
			}
		}
	}
	return out
}

// ParseBattery parses the output of dumpsys battery.
func ParseBattery(text string) Battery {
	b := Battery{}
	level, scale := -1, 100
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		n, err := strconv.Atoi(strings.TrimSpace(value))
		switch {
		case strings.HasSuffix(key, " powered"):
			b.Powered = b.Powered || strings.TrimSpace(value) == "true"
		case err != nil:
		case key == "level":
			level = n
		case key == "scale":
			scale = n
		case key == "temperature" && n > -1000 && n < 2000: // tenths
			b.Celsius = float64(n) / 10
		}
	}
	if level >= 0 && scale > 0 && level <= scale && scale <= 1<<20 {
		b.Known, b.Level = true, level*100/scale
	}
	return b
}

// ParseThermal parses lines of PATH/thermal_zoneN/type:NAME and …/temp:VALUE. Values are in
// thousandths of a degree, or in degrees on some devices.
func ParseThermal(text string) []Zone {
	names, temps := map[string]string{}, map[string]float64{}
	var order []string
	for line := range strings.Lines(text) {
		file, value, ok := strings.Cut(strings.TrimSpace(line), ":")
		zone, key, _ := cutLast(file, "/")
		if !ok || len(order) > maxLines {
			continue
		}
		switch key {
		case "type":
			if _, again := names[zone]; !again {
				order = append(order, zone)
			}
			names[zone] = value
		case "temp":
			if t := telemetry.Zone(value); t != nil {
				temps[zone] = *t
			}
		}
	}
	zones := []Zone{}
	for _, z := range order {
		if t, ok := temps[z]; ok {
			zones = append(zones, Zone{names[z], t})
		}
	}
	return zones
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return "", s, false
	}
	return s[:i], s[i+len(sep):], true
}

// ParseMemory parses /proc/meminfo and returns the available bytes, or 0 if they are
// missing.
func ParseMemory(text string) int64 {
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(v), "kB")), 10, 64)
			if err == nil && n >= 0 && n < 1<<40 {
				return n << 10
			}
		}
	}
	return 0
}

// ParseFree parses the output of df -k and returns the free bytes, or -1 if they are
// missing. A long device name may take a line of its own.
func ParseFree(text string) int64 {
	words := strings.Fields(text)
	for i, w := range words {
		if !strings.HasSuffix(w, "%") || i < 3 || w == "Use%" {
			continue
		}
		if n, err := strconv.ParseInt(words[i-1], 10, 64); err == nil && n >= 0 && n < 1<<50 {
			return n << 10
		}
	}
	return -1
}

// Probe reads the properties and the state of the device. Nothing on it changes.
func (d *Device) Probe(ctx context.Context) (Probe, error) {
	p := Probe{Signs: []string{}}
	var text [6]string
	raw := [6]*string{&p.Raw.Properties, nil, &p.Raw.Battery, &p.Raw.Memory, &p.Raw.Disk, nil}
	for i, c := range []string{"getprop", "uname -m", "dumpsys battery", "cat /proc/meminfo", protocol.Command("df", "-k", parent(d.at())),
		"grep -s . /sys/class/thermal/thermal_zone*/type /sys/class/thermal/thermal_zone*/temp"} {
		out, err := d.long(ctx, 0, c)
		if err != nil {
			return p, err
		}
		text[i] = string(out.Stdout)
		if raw[i] != nil && out.Code == 0 {
			*raw[i] = text[i][:min(len(text[i]), maxRaw)]
		}
	}
	props := ParseProperties(text[0])
	p.Device = evidence.Device{Manufacturer: props["ro.product.manufacturer"], Model: props["ro.product.model"], Android: props["ro.build.version.release"],
		ABI: props["ro.product.cpu.abi"], Machine: strings.TrimSpace(text[1]), SoC: props["ro.soc.model"]}
	p.Battery, p.Memory, p.Free, p.Zones = ParseBattery(text[2]), ParseMemory(text[3]), ParseFree(text[4]), ParseThermal(text[5])
	p.Raw.Thermal = thermal(p.Zones)
	if c, ok := d.Chips.Named(p.Device.SoC); ok && p.Device.SoC != "" {
		p.Chip = &Chip{c.Name, c.Model, c.Arch.String()}
	}
	for _, s := range []struct{ key, value string }{{"ro.kernel.qemu", "1"}, {"ro.boot.qemu", "1"}, {"ro.mm.simulated", "1"}, {"ro.hardware", "goldfish"}, {"ro.hardware", "ranchu"}, {"ro.hardware", "cutf_cvm"}} {
		if props[s.key] == s.value {
			p.Signs = append(p.Signs, s.key+"="+s.value)
		}
	}
	if m := p.Device.Machine; m != "aarch64" {
		p.Signs = append(p.Signs, fmt.Sprintf("kernel architecture %q", m))
	}
	return p, nil
}

// thermal formats the zones, a line each, with spaces in names replaced.
func thermal(zones []Zone) string {
	var b strings.Builder
	for _, z := range zones {
		if line := fmt.Sprintf("%s %d\n", strings.Join(strings.Fields(cmp.Or(z.Name, "zone")), "_"), int(math.Round(z.Celsius*1000))); b.Len()+len(line) <= maxRaw {
			b.WriteString(line)
		}
	}
	return b.String()
}

func parent(dir string) string {
	before, _, _ := cutLast(dir, "/")
	return before
}

// The limits of a device's state for a run.
const (
	MinBattery = 15   // percent, unless powered
	MaxBattery = 45.0 // °C of the battery
	MaxZone    = 95.0 // °C of a zone of the NPU or the processor
)

// ready returns the faults that prevent a run now.
func (d *Device) ready(p Probe, least int) diag.List {
	var l diag.List
	if b := p.Battery; b.Known && b.Level < least && !b.Powered {
		l.Add(diag.DeviceBattery, d.pos(), fmt.Sprintf("%d %% and not powered, want at least %d %%", b.Level, least), diag.DeviceBattery.Fix())
	}
	if c := p.Battery.Celsius; c > MaxBattery {
		l.Add(diag.DeviceHot, d.pos(), fmt.Sprintf("battery at %.1f °C, limit %.0f", c, MaxBattery), diag.DeviceHot.Fix())
	}
	for _, z := range p.Zones {
		if z.Celsius > MaxZone {
			l.Add(diag.DeviceHot, d.pos(), fmt.Sprintf("%s at %.1f °C, limit %.0f", z.Name, z.Celsius, MaxZone), diag.DeviceHot.Fix())
		}
	}
	return l
}
