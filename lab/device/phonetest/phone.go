// Package phonetest emulates a phone for tests: its storage is a folder, the programs of
// its system that mm calls are emulated, and so is the runner of docs/DEVICES.md. It
// computes on the local processor; every property, result and record is marked as
// simulated.
//
// [Phone.Serve] implements services of adb (the device's side of shell,v2 and sync) on any
// stream. [Daemon] serves them with the transport protocol over TCP, so that Android's adb
// connects with adb connect. [Server] is a double of the adb server for machines without
// adb. [Phone.Break] enables a [Fault].
package phonetest

import (
	"fmt"
	"sync"
	"sync/atomic"

	"mm-abi.org/mm/internal/fsx"
)

// Fault is a fault of a phone.
type Fault string

// The faults.
const (
	WrongArch     Fault = "wrong arch"      // the NPU has another architecture
	Mismatch      Fault = "error 1008"      // the libraries do not match
	Refused       Fault = "error 5000"      // the context is refused
	NoSkel        Fault = "missing skel"    // the NPU's part of the library is missing
	OutOfMemory   Fault = "out of memory"   // error 1002
	Execute       Fault = "error 6001"      // the graph fails
	ShortOutput   Fault = "short output"    // an output is truncated
	MissingOutput Fault = "missing output"  // an output is not written
	ExtraOutput   Fault = "extra output"    // an unexpected output is written
	StaleOutput   Fault = "stale output"    // the outputs of the previous run
	StaleNonce    Fault = "stale result"    // the result of another run
	NaNOutput     Fault = "NaN output"      //
	ZeroOutput    Fault = "all-zero output" //
	SameOutput    Fault = "same outputs"    // for all inputs
	WrongOutput   Fault = "wrong output"    // wrong numbers
	Hang          Fault = "hang"            // the runner does not end
	Crash         Fault = "crash"           // killed by a signal
	Babble        Fault = "babble"          // the output is not a result
	NotRunnable   Fault = "not executable"  // the runner cannot be executed
	Unplug        Fault = "unplugged"       // during a push
	Cut           Fault = "cut once"        // the connection breaks during a push and returns
	LowBattery    Fault = "low battery"     //
	Hot           Fault = "hot"             //
	Locked        Fault = "locked storage"  // before the first unlock
	ReadOnly      Fault = "read-only storage"
	Full          Fault = "full storage"
	NoSpaceLeft   Fault = "storage fills up" // less than df reports
	WrongSoC      Fault = "wrong SoC"
	Corrupt       Fault = "corrupted push" // the storage returns wrong bytes
	LyingName     Fault = "platform of another chip"
)

// Battery is the state that dumpsys battery prints.
type Battery struct {
	Level   int // percent
	Powered bool
	Tenths  int // of a degree Celsius
}

// Phone is an emulated phone. Set its fields before use.
type Phone struct {
	Serial   string
	Props    map[string]string
	Features []string
	Battery  Battery
	Thermal  map[string]int // zone to thousandths of a degree
	Free     int64          // bytes of storage
	Machine  string         // architecture of the kernel
	SoC      uint32         // QNN's number of the chip
	Arch     uint32
	Build    string // of its QNN libraries
	// Pretend hides every sign of simulation that the phone can hide, to test what mm
	// detects itself.
	Pretend bool
	// Exec, if not nil, runs instead of the emulated runner.
	Exec Exec

	files  *fsx.Dir
	mu     sync.Mutex
	links  map[string]string
	exec   map[string]bool
	faults map[Fault]bool
	used   int64
	runs   int
	last   map[string][]byte // outputs of the previous run
	got    atomic.Int64      // pushed bytes
	cutAt  int64             // pushed bytes at which the connection breaks
	gone   chan struct{}     // closed when it is unplugged
}

// New returns a phone with storage in the folder dir: an SM8750 with libraries of QAIRT
// 2.47.
func New(dir string) (*Phone, error) {
	files, err := fsx.Create(dir, 0o755, fsx.Options{})
	if err != nil {
		return nil, err
	}
	p := &Phone{
		Serial: "EMULATED01",
		Props: map[string]string{
			"ro.product.manufacturer": "mm", "ro.product.model": "Emulated Phone", "ro.product.name": "emulated", "ro.product.device": "emulated",
			"ro.soc.manufacturer": "QTI", "ro.soc.model": "SM8750", "ro.product.cpu.abi": "arm64-v8a",
			"ro.build.version.release": "15", "ro.build.version.sdk": "35", "ro.kernel.qemu": "1", "ro.mm.simulated": "1",
		},
		Features: []string{"shell_v2", "cmd", "stat_v2", "ls_v2", "sendrecv_v2"},
		Battery:  Battery{Level: 80, Powered: true, Tenths: 281},
		Thermal:  map[string]int{"cpu-0-0": 38200, "nsphvx-0": 36100, "battery": 28100},
		Free:     8 << 30, Machine: "aarch64", SoC: 69, Arch: 79, Build: "v2.47.0.260601114230",
		files: files, cutAt: 256 << 10, links: map[string]string{}, exec: map[string]bool{}, faults: map[Fault]bool{}, gone: make(chan struct{}),
	}
	return p, files.MkdirAll("data/local/tmp", 0o755)
}

// Honest sets whether the phone shows that it is emulated, which is the default.
func (p *Phone) Honest(honest bool) {
	p.Pretend = !honest
	if p.Pretend {
		delete(p.Props, "ro.kernel.qemu")
		delete(p.Props, "ro.mm.simulated")
	}
}

// Break enables a fault.
func (p *Phone) Break(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults[f] = true
	switch f {
	case LowBattery:
		p.Battery.Level, p.Battery.Powered = 7, false
	case Hot:
		p.Battery.Tenths, p.Thermal["nsphvx-0"] = 478, 96000
	case Full:
		p.Free = 4096
	case WrongArch:
		p.Arch = 75
	case WrongSoC:
		p.Props["ro.soc.model"], p.SoC, p.Arch = "SM8650", 57, 75
	case LyingName:
		p.SoC, p.Arch = 57, 75
	}
}

// Mend disables all faults except properties of the phone.
func (p *Phone) Mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.faults)
}

func (p *Phone) broken(f Fault) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults[f]
}

// once reports whether a fault is enabled, and disables it.
func (p *Phone) once(f Fault) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	on := p.faults[f]
	delete(p.faults, f)
	return on
}

// CutAt breaks the connection once, after that many bytes.
func (p *Phone) CutAt(bytes int64) {
	p.cutAt = bytes
	p.Break(Cut)
}

// Received returns the number of bytes of files that were pushed.
func (p *Phone) Received() int64 { return p.got.Load() }

// Gone is closed when the phone is unplugged.
func (p *Phone) Gone() <-chan struct{} { return p.gone }

// unplug unplugs the phone, once.
func (p *Phone) unplug() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.gone:
	default:
		close(p.gone)
	}
}

// Close closes the folder.
func (p *Phone) Close() error { return p.files.Close() }

// Banner returns the phone's connection banner.
func (p *Phone) Banner() string {
	b := "device::"
	for _, k := range []string{"ro.product.name", "ro.product.model", "ro.product.device"} {
		b += fmt.Sprintf("%s=%s;", k, p.Props[k])
	}
	b += "features="
	for i, f := range p.Features {
		if i > 0 {
			b += ","
		}
		b += f
	}
	return b
}
