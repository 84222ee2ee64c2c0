package judge

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/telemetry"
	"mm-abi.org/mm/onnx/htp"
)

// The files of a probe: the output of adb devices -l, getprop, dumpsys battery and others.
const (
	DevicesFile = "adb-devices.txt"
	PropFile    = "getprop.txt"
	MemoryFile  = "meminfo.txt"
	BatteryFile = "battery.txt"
	DiskFile    = "df.txt"
	ThermalFile = "thermal.txt"
	PythonFile  = "python.txt"
)

// WriteProbe writes the files of a probe to a folder by name. An empty text has no file; an
// older one is removed.
func WriteProbe(path string, files map[string]string) error {
	dir, err := fsx.Create(path, 0o755, fsx.Options{})
	if err != nil {
		return err
	}
	defer dir.Close()
	for name, text := range files {
		if text == "" {
			err = dir.Remove(name)
		} else {
			err = dir.WriteFile(name, []byte(text), 0o644)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// maxFile is the maximum size of a file in bytes.
const maxFile = 1 << 20

// Device is a line of adb devices -l.
type Device struct {
	Serial    string            `json:"serial"`
	State     string            `json:"state"` // device, unauthorized, offline, recovery, sideload
	Transport string            `json:"transport_id,omitempty"`
	Extra     map[string]string `json:"extra,omitempty"` // product, model, device
}

// states are the device states of adb.
var states = []string{"device", "unauthorized", "offline", "recovery", "sideload", "bootloader", "no", "authorizing", "connecting", "host"}

// Devices parses the output of adb devices -l and ignores other lines.
func Devices(text string) []Device {
	var out []Device
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 || strings.HasPrefix(line, "*") || strings.HasPrefix(line, "List of devices") || !slices.Contains(states, f[1]) {
			continue
		}
		d := Device{Serial: f[0], State: f[1], Extra: map[string]string{}}
		for _, field := range f[2:] {
			switch k, v, ok := strings.Cut(field, ":"); {
			case !ok:
			case k == "transport_id":
				d.Transport = v
			default:
				d.Extra[k] = v
			}
		}
		out = append(out, d)
	}
	return out
}

// property matches a line of getprop.
var property = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^\[([^\]\n]+)\]: \[(.*)\]\r?$`) })

// Properties parses the output of getprop.
func Properties(text string) map[string]string {
	out := map[string]string{}
	for _, m := range property().FindAllStringSubmatch(text, -1) {
		out[m[1]] = m[2]
	}
	return out
}

// kib matches a line of /proc/meminfo.
var kib = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^(\S+):\s+(\d{1,15}) kB\s*$`) })

// Memory parses /proc/meminfo, in KiB.
func Memory(text string) map[string]int64 {
	out := map[string]int64{}
	for _, m := range kib().FindAllStringSubmatch(text, -1) {
		if v, err := strconv.ParseInt(m[2], 10, 64); err == nil {
			out[m[1]] = v
		}
	}
	return out
}

// Target is a chip and the confidence in it, from 0 to 1.
type Target struct {
	SoC        string  `json:"soc"`
	Confidence float64 `json:"confidence"`
}

// marketing maps product names to chips. If one contains another, the longer one comes
// first.
var marketing = []struct {
	text, soc  string
	confidence float64
}{
	{"snapdragon 8 gen 3", "SM8650", 0.9}, {"8 elite gen 5", "SM8850", 0.9}, {"8 elite gen 4", "SM8750", 0.9}, {"8 elite", "SM8750", 0.6},
}

// chipNumber matches a chip number that is not part of a longer word.
var chipNumber = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(SM\d{4}|SA\d{4}P?|QCS\d{4}|QCM\d{4}|SC\d{4}[A-Z]{0,2})\b`)
})

// Resolve returns the chip that text names: with confidence 1 for the number of a known
// chip, less for a product name, and 0 for other text or two different chips.
func Resolve(text string, chips htp.Chips) Target {
	var names []string
	for _, m := range chipNumber().FindAllString(text, -1) {
		if c, ok := chips.Named(m); ok && !slices.Contains(names, c.Name) {
			names = append(names, c.Name)
		}
	}
	if len(names) == 1 {
		return Target{names[0], 1}
	}
	if len(names) > 1 {
		return Target{}
	}
	low := strings.ToLower(strings.Join(strings.Fields(text), " "))
	for _, m := range marketing {
		if strings.Contains(low, m.text) {
			return Target{m.soc, m.confidence}
		}
	}
	return Target{}
}

// Envelope holds the values of a probe. Unknown ones are nil or empty.
type Envelope struct {
	Attached   bool     `json:"phone_attached"` // exactly one authorized device
	Devices    []Device `json:"devices"`
	Model      string   `json:"phone_model,omitempty"`
	Android    string   `json:"android_version,omitempty"`
	ABI        string   `json:"abi,omitempty"`
	Reported   string   `json:"soc_reported,omitempty"`
	Target     Target   `json:"soc_target"`
	QNN        bool     `json:"qnn_allowed"` // Target.Confidence is 1
	RAMGiB     *float64 `json:"ram_gib,omitempty"`
	StorageGiB *float64 `json:"storage_free_gib,omitempty"`
	BatteryPct *float64 `json:"battery_pct,omitempty"`
	BatteryC   *float64 `json:"battery_temp_c,omitempty"`
	Powered    *bool    `json:"powered,omitempty"`
	HottestC   *float64 `json:"hottest_c,omitempty"`
	Python     string   `json:"termux_python_version,omitempty"`
	Absent     []string `json:"absent"` // missing files
}

// ReadEnvelope reads the folder of a probe. Missing files are listed in Absent.
func ReadEnvelope(dir string, chips htp.Chips) (Envelope, error) {
	e := Envelope{Absent: []string{}, Devices: []Device{}}
	texts := map[string]string{}
	for _, name := range []string{DevicesFile, PropFile, MemoryFile, BatteryFile, DiskFile, ThermalFile, PythonFile} {
		data, err := fsx.ReadFile(filepath.Join(dir, name), maxFile)
		if errors.Is(err, fs.ErrNotExist) {
			e.Absent = append(e.Absent, name)
			continue
		}
		if err != nil {
			return e, err
		}
		texts[name] = strings.ToValidUTF8(string(data), "\uFFFD")
	}
	if len(texts) == 0 {
		return e, fmt.Errorf("%s: no probe files", dir)
	}
	e.Devices = append(e.Devices, Devices(texts[DevicesFile])...)
	e.Attached = len(e.Devices) == 1 && e.Devices[0].State == "device"
	e.properties(Properties(texts[PropFile]), chips)
	if kb, ok := Memory(texts[MemoryFile])["MemTotal"]; ok {
		e.RAMGiB = scaled(strconv.FormatInt(kb, 10), 1<<20)
	}
	e.battery(texts[BatteryFile])
	e.StorageGiB = storage(texts[DiskFile])
	e.HottestC = hottest(texts[ThermalFile])
	if m := python().FindStringSubmatch(texts[PythonFile]); m != nil {
		e.Python = m[1]
	}
	return e, nil
}

// properties sets the values from getprop.
func (e *Envelope) properties(p map[string]string, chips htp.Chips) {
	e.Model, e.Android, e.ABI = p["ro.product.model"], p["ro.build.version.release"], p["ro.product.cpu.abi"]
	for _, key := range []string{"ro.soc.model", "ro.board.platform", "ro.hardware.chipname"} {
		if p[key] == "" {
			continue
		}
		if t := Resolve(p[key], chips); t.Confidence > e.Target.Confidence {
			e.Target, e.Reported = t, p[key]
		} else if e.Reported == "" {
			e.Reported = p[key]
		}
	}
	e.QNN = e.Target.Confidence == 1
}

var (
	python = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^Python (\d{1,4}\.\d{1,4}(?:\.\d{1,4})?)\s*$`) })
	cell   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^\s*([A-Za-z ]+): (\S+)\s*$`) })
	row    = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?m)^\S+\s+\d+\s+\d+\s+(\d{1,15})\s+\d+%\s+/data\s*$`)
	})
	zone = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^\S+\s+(-?\d{1,7})\s*$`) })
)

// battery parses dumpsys battery: level in percent, temperature in tenths of a degree.
func (e *Envelope) battery(text string) {
	powered, found := false, false
	for _, m := range cell().FindAllStringSubmatch(text, -1) {
		switch m[1] {
		case "level":
			e.BatteryPct = scaled(m[2], 1)
		case "temperature":
			e.BatteryC = scaled(m[2], 10)
		case "AC powered", "USB powered", "Wireless powered", "Dock powered":
			found, powered = true, powered || m[2] == "true"
		}
	}
	if found {
		e.Powered = &powered
	}
}

// storage parses df and returns the free space at /data in GiB.
func storage(text string) *float64 {
	if m := row().FindStringSubmatch(text); m != nil {
		return scaled(m[1], 1<<20)
	}
	return nil
}

// hottest parses lines of a zone and its temperature, and returns the highest.
func hottest(text string) *float64 {
	var most *float64
	for _, m := range zone().FindAllStringSubmatch(text, -1) {
		if v := telemetry.Zone(m[1]); v != nil && (most == nil || *v > *most) {
			most = v
		}
	}
	return most
}

func scaled(text string, unit float64) *float64 {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || v != v {
		return nil
	}
	v /= unit
	return &v
}
