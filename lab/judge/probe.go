// Package probe reads what a probe of a phone left behind: the output of adb
// devices -l, of getprop, /proc/meminfo and the like, a file each in a folder.
//
// [Read] makes an [Envelope] of them. A file that is not there leaves its part
// empty and is named; a chip that is not certain is no target, so that nothing
// that needs one runs.
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

	"mm-abi.org/mm/core/htp/fit"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/telemetry"
)

// The files of a probe.
const (
	DevicesFile = "adb-devices.txt"
	PropFile    = "getprop.txt"
	MemoryFile  = "meminfo.txt"
	BatteryFile = "battery.txt"
	DiskFile    = "df.txt"
	ThermalFile = "thermal.txt"
	PythonFile  = "python.txt"
)

// maxFile bounds a file in bytes.
const maxFile = 1 << 20

// Device is a line of adb devices -l.
type Device struct {
	Serial    string            `json:"serial"`
	State     string            `json:"state"` // device, unauthorized, offline, recovery, sideload
	Transport string            `json:"transport_id,omitempty"`
	Extra     map[string]string `json:"extra,omitempty"` // product, model, device
}

// states are those of adb.
var states = []string{"device", "unauthorized", "offline", "recovery", "sideload", "bootloader", "no", "authorizing", "connecting", "host"}

// Devices reads the output of adb devices -l. Lines of the server and of what is
// no device are left out.
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

// property is a line of getprop.
var property = regexp.MustCompile(`(?m)^\[([^\]\n]+)\]: \[(.*)\]\r?$`)

// Properties reads the output of getprop.
func Properties(text string) map[string]string {
	out := map[string]string{}
	for _, m := range property.FindAllStringSubmatch(text, -1) {
		out[m[1]] = m[2]
	}
	return out
}

// kib is a line of /proc/meminfo.
var kib = regexp.MustCompile(`(?m)^(\S+):\s+(\d{1,15}) kB\s*$`)

// Memory reads /proc/meminfo, in KiB.
func Memory(text string) map[string]int64 {
	out := map[string]int64{}
	for _, m := range kib.FindAllStringSubmatch(text, -1) {
		if v, err := strconv.ParseInt(m[2], 10, 64); err == nil {
			out[m[1]] = v
		}
	}
	return out
}

// Target is the chip that a word of a device means, and how certain that is.
type Target struct {
	SoC        string  `json:"soc"`
	Confidence float64 `json:"confidence"`
}

// marketing are names that makers use, longest first where one holds another.
var marketing = []struct {
	text, soc  string
	confidence float64
}{
	{"snapdragon 8 gen 3", "SM8650", 0.9}, {"8 elite gen 5", "SM8850", 0.9}, {"8 elite gen 4", "SM8750", 0.9}, {"8 elite", "SM8750", 0.6},
}

// number is a chip's own number, not a piece of a longer one.
var chipNumber = regexp.MustCompile(`(?i)\b(SM\d{4}|SA\d{4}P?|QCS\d{4}|QCM\d{4}|SC\d{4}[A-Z]{0,2})\b`)

// Resolve says which chip of the table a word means: certainly where it is the
// chip's number, less so of a name, not at all of any other. Two chips in one
// word are none.
func Resolve(text string, chips fit.Chips) Target {
	var found []string
	for _, m := range chipNumber.FindAllString(text, -1) {
		if c, ok := chips.Named(m); ok && !slices.Contains(found, c.Name) {
			found = append(found, c.Name)
		}
	}
	if len(found) == 1 {
		return Target{found[0], 1}
	}
	if len(found) > 1 {
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

// Envelope is a probe in figures; what nobody told is nil or empty.
type Envelope struct {
	Attached   bool     `json:"phone_attached"` // exactly one device, authorised
	Devices    []Device `json:"devices"`
	Model      string   `json:"phone_model,omitempty"`
	Android    string   `json:"android_version,omitempty"`
	ABI        string   `json:"abi,omitempty"`
	Reported   string   `json:"soc_reported,omitempty"`
	Target     Target   `json:"soc_target"`
	QNN        bool     `json:"qnn_allowed"` // the chip is certain
	RAMGiB     *float64 `json:"ram_gib,omitempty"`
	StorageGiB *float64 `json:"storage_free_gib,omitempty"`
	BatteryPct *float64 `json:"battery_pct,omitempty"`
	BatteryC   *float64 `json:"battery_temp_c,omitempty"`
	Powered    *bool    `json:"powered,omitempty"`
	HottestC   *float64 `json:"hottest_c,omitempty"`
	Python     string   `json:"termux_python_version,omitempty"`
	Absent     []string `json:"absent"` // files that are not there
}

// Read reads the folder of a probe.
func ReadEnvelope(dir string, chips fit.Chips) (Envelope, error) {
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
		return e, fmt.Errorf("%s holds no file of a probe", dir)
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
	if m := python.FindStringSubmatch(texts[PythonFile]); m != nil {
		e.Python = m[1]
	}
	return e, nil
}

// properties are what the phone says of itself.
func (e *Envelope) properties(p map[string]string, chips fit.Chips) {
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
	python = regexp.MustCompile(`(?m)^Python (\d{1,4}\.\d{1,4}(?:\.\d{1,4})?)\s*$`)
	cell   = regexp.MustCompile(`(?m)^\s*([A-Za-z ]+): (\S+)\s*$`)
	row    = regexp.MustCompile(`(?m)^\S+\s+\d+\s+\d+\s+(\d{1,15})\s+\d+%\s+/data\s*$`)
	zone   = regexp.MustCompile(`(?m)^\S+\s+(-?\d{1,7})\s*$`)
)

// battery reads dumpsys battery: level in per cent, temperature in tenths of a
// degree.
func (e *Envelope) battery(text string) {
	powered, told := false, false
	for _, m := range cell.FindAllStringSubmatch(text, -1) {
		switch m[1] {
		case "level":
			e.BatteryPct = scaled(m[2], 1)
		case "temperature":
			e.BatteryC = scaled(m[2], 10)
		case "AC powered", "USB powered", "Wireless powered", "Dock powered":
			told, powered = true, powered || m[2] == "true"
		}
	}
	if told {
		e.Powered = &powered
	}
}

// storage reads df: the KiB that are free at /data.
func storage(text string) *float64 {
	if m := row.FindStringSubmatch(text); m != nil {
		return scaled(m[1], 1<<20)
	}
	return nil
}

// hottest reads lines of a zone and its heat.
func hottest(text string) *float64 {
	var most *float64
	for _, m := range zone.FindAllStringSubmatch(text, -1) {
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
