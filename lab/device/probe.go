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
	"mm-abi.org/mm/lab/device/lane"
	"mm-abi.org/mm/lab/telemetry"
)

// Probe is what a device says of itself.
type Probe struct {
	Device  evidence.Device `json:"device"`
	Chip    *Chip           `json:"chip,omitempty"` // by the table of chips; not there where it has none of the name
	Battery Battery         `json:"battery"`
	Zones   []Zone          `json:"thermal"`
	Memory  int64           `json:"memory_bytes"` // that is available; 0 is unknown
	Free    int64           `json:"free_bytes"`   // of the storage; -1 is unknown
	// Signs are those that the device is an emulated one.
	Signs []string `json:"signs"`
	Said  Said     `json:"-"`
}

// Said is what a device answered, in its own words, of each at most 1 MiB; "" where
// it failed to.
type Said struct {
	Properties string // getprop
	Memory     string // /proc/meminfo
	Battery    string // dumpsys battery
	Disk       string // df -k
	Thermal    string // lines of a zone and its thousandths of a degree
}

// maxSaid bounds each answer in bytes.
const maxSaid = 1 << 20

// Chip is a row of the table of chips.
type Chip struct {
	Name  string `json:"name"`
	Model uint32 `json:"soc_model"`
	Arch  string `json:"arch"`
}

// Battery is a device's battery. Known is false where it has none.
type Battery struct {
	Known   bool    `json:"known"`
	Level   int     `json:"level"` // percent
	Powered bool    `json:"powered"`
	Celsius float64 `json:"celsius"`
}

// Zone is a place in the device and how warm it is.
type Zone struct {
	Name    string  `json:"name"`
	Celsius float64 `json:"celsius"`
}

// maxLines bounds what is read of what a device prints.
const maxLines = 1 << 16

// ParseProperties reads what getprop prints: lines of [key]: [value], in which
// values may go over several lines.
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

// ParseBattery reads what dumpsys battery prints.
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

// ParseThermal reads lines of PATH/thermal_zoneN/type:NAME and …/temp:VALUE. A
// value is in thousandths of a degree, or in degrees on devices that say few.
func ParseThermal(text string) []Zone {
	names, temps := map[string]string{}, map[string]float64{}
	var order []string
	for line := range strings.Lines(text) {
		file, value, ok := strings.Cut(strings.TrimSpace(line), ":")
		zone, what, _ := cutLast(file, "/")
		if !ok || len(order) > maxLines {
			continue
		}
		switch what {
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

// ParseMemory reads /proc/meminfo: the bytes that are available, 0 where it does
// not say.
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

// ParseFree reads what df -k prints: the bytes that are free, -1 where it does
// not say. A long device name may stand in a line of its own.
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

// Probe asks the device what it is. Nothing on it changes.
func (d *Device) Probe(ctx context.Context) (Probe, error) {
	p := Probe{Signs: []string{}}
	var text [6]string
	said := [6]*string{&p.Said.Properties, nil, &p.Said.Battery, &p.Said.Memory, &p.Said.Disk, nil}
	for i, c := range []string{"getprop", "uname -m", "dumpsys battery", "cat /proc/meminfo", lane.Command("df", "-k", parent(d.at())),
		"grep -s . /sys/class/thermal/thermal_zone*/type /sys/class/thermal/thermal_zone*/temp"} {
		out, err := d.long(ctx, 0, c)
		if err != nil {
			return p, err
		}
		text[i] = string(out.Stdout)
		if said[i] != nil && out.Code == 0 {
			*said[i] = text[i][:min(len(text[i]), maxSaid)]
		}
	}
	props := ParseProperties(text[0])
	p.Device = evidence.Device{Manufacturer: props["ro.product.manufacturer"], Model: props["ro.product.model"], Android: props["ro.build.version.release"],
		ABI: props["ro.product.cpu.abi"], Machine: strings.TrimSpace(text[1]), SoC: props["ro.soc.model"]}
	p.Battery, p.Memory, p.Free, p.Zones = ParseBattery(text[2]), ParseMemory(text[3]), ParseFree(text[4]), ParseThermal(text[5])
	p.Said.Thermal = thermal(p.Zones)
	if c, ok := d.Chips.Named(p.Device.SoC); ok && p.Device.SoC != "" {
		p.Chip = &Chip{c.Name, c.Model, c.Arch.String()}
	}
	for _, s := range []struct{ key, value string }{{"ro.kernel.qemu", "1"}, {"ro.boot.qemu", "1"}, {"ro.mm.simulated", "1"}, {"ro.hardware", "goldfish"}, {"ro.hardware", "ranchu"}, {"ro.hardware", "cutf_cvm"}} {
		if props[s.key] == s.value {
			p.Signs = append(p.Signs, s.key+"="+s.value)
		}
	}
	if m := p.Device.Machine; m != "aarch64" {
		p.Signs = append(p.Signs, fmt.Sprintf("the kernel is of %q", m))
	}
	return p, nil
}

// thermal writes a line of each zone, whose name is one word then.
func thermal(zones []Zone) string {
	var b strings.Builder
	for _, z := range zones {
		if line := fmt.Sprintf("%s %d\n", strings.Join(strings.Fields(cmp.Or(z.Name, "zone")), "_"), int(math.Round(z.Celsius*1000))); b.Len()+len(line) <= maxSaid {
			b.WriteString(line)
		}
	}
	return b.String()
}

func parent(dir string) string {
	before, _, _ := cutLast(dir, "/")
	return before
}

// Bounds of a device's state, beyond which nothing is run.
const (
	MinBattery = 15   // percent, without a charger
	MaxBattery = 45.0 // °C of the battery
	MaxZone    = 95.0 // °C of a zone of the NPU or the processor
)

// ready says all that speaks against a run on the device now.
func (d *Device) ready(p Probe, least int) diag.List {
	var l diag.List
	if b := p.Battery; b.Known && b.Level < least && !b.Powered {
		l.Add(diag.DeviceBattery, d.pos(), fmt.Sprintf("%d %%, and no charger; at least %d %%", b.Level, least), diag.DeviceBattery.Fix())
	}
	if c := p.Battery.Celsius; c > MaxBattery {
		l.Add(diag.DeviceHot, d.pos(), fmt.Sprintf("the battery has %.1f °C, at most %.0f", c, MaxBattery), diag.DeviceHot.Fix())
	}
	for _, z := range p.Zones {
		if z.Celsius > MaxZone {
			l.Add(diag.DeviceHot, d.pos(), fmt.Sprintf("%s has %.1f °C, at most %.0f", z.Name, z.Celsius, MaxZone), diag.DeviceHot.Fix())
		}
	}
	return l
}
