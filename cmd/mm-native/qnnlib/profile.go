package qnnlib

import (
	"runtime"
	"unsafe"

	"mm-abi.org/mm/cmd/mm-native/dynlib"
	"mm-abi.org/mm/runtimes/qnn/ask"
)

const (
	basicProfile = 1
	maxEvents    = 1 << 16
	maxNested    = 4
)

// profiling starts the profile of a run; 0 is none.
func (e *Engine) profiling(f *function) uintptr {
	if !f.profile {
		return 0
	}
	p, err := e.htp.create("profileCreate", profileCreate, f.backend, basicProfile)
	if err != nil {
		return 0
	}
	return p
}

// gather stores the events of a run.
func (e *Engine) gather(profile uintptr) {
	if profile == 0 {
		return
	}
	left := maxEvents
	e.last = ask.Events{Events: e.events(profileEvents, profile, 0, &left)}
}

// events reads the events of a profile, or those below an event.
func (e *Engine) events(f slot, of uintptr, depth int, left *int) []ask.Event {
	list, n := new(uintptr), new(uint32)
	if depth > maxNested || e.htp.call("profileGetEvents", f, of, uintptr(unsafe.Pointer(list)), uintptr(unsafe.Pointer(n))) != nil {
		return nil
	}
	var out []ask.Event
	for i := range uintptr(*n) {
		if *left--; *left < 0 || *list == 0 {
			return out
		}
		id := *(*uintptr)(dynlib.Pointer(*list + 8*i)) // QnnProfile_EventId_t, a u64
		// QnnProfile_EventData_t: type, unit at 4, value at 8, name at 16.
		data := new([4]uint64)
		var pin runtime.Pinner
		pin.Pin(data)
		err := e.htp.call("profileGetEventData", profileEventData, id, uintptr(unsafe.Pointer(data)))
		at := uintptr(unsafe.Pointer(data))
		if err == nil {
			event := ask.Event{Type: u32(at), Unit: u32(at + 4), Value: u64(at + 8), Name: dynlib.String(pointer(at + 16))}
			event.Sub = e.events(profileSubEvents, id, depth+1, left)
			out = append(out, event)
		}
		pin.Unpin()
	}
	return out
}
