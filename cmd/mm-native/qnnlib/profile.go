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

// profiling starts the profile of a run, or returns 0.
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
	e.last = ask.Events{Events: collect(e.eventIDs, e.event, profile, 0, &left)}
}

// eventIDs returns the ids of the events of a profile, or at a depth those below an event,
// in the library's memory.
func (e *Engine) eventIDs(of uintptr, depth int) []uintptr { // QnnProfile_EventId_t, a u64
	f := slot(profileEvents)
	if depth > 0 {
		f = profileSubEvents
	}
	list, n := new(uintptr), new(uint32)
	if e.htp.call("profileGetEvents", f, of, uintptr(unsafe.Pointer(list)), uintptr(unsafe.Pointer(n))) != nil || *list == 0 {
		return nil
	}
	return unsafe.Slice((*uintptr)(dynlib.Pointer(*list)), *n)
}

// event reads an event without those below it.
func (e *Engine) event(id uintptr) (event ask.Event, ok bool) {
	// QnnProfile_EventData_t: type, unit at 4, value at 8, name at 16.
	data := new([4]uint64)
	var pin runtime.Pinner
	pin.Pin(data)
	defer pin.Unpin()
	at := uintptr(unsafe.Pointer(data))
	if e.htp.call("profileGetEventData", profileEventData, id, at) != nil {
		return event, false
	}
	return ask.Event{Type: u32(at), Unit: u32(at + 4), Value: u64(at + 8), Name: dynlib.String(pointer(at + 16))}, true
}

// collect reads events and those below them, at most left in total and maxNested deep.
func collect(ids func(of uintptr, depth int) []uintptr, read func(id uintptr) (ask.Event, bool), of uintptr, depth int, left *int) []ask.Event {
	if depth > maxNested {
		return nil
	}
	var out []ask.Event
	for _, id := range ids(of, depth) {
		if *left--; *left < 0 {
			return out
		}
		if event, ok := read(id); ok {
			event.Sub = collect(ids, read, id, depth+1, left)
			out = append(out, event)
		}
	}
	return out
}
