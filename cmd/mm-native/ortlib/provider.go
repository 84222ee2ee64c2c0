package ortlib

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"unsafe"

	"github.com/ebitengine/purego"

	"mm-abi.org/mm/cmd/mm-native/dynlib"
)

// The functions for providers in separate libraries, available since version 24 of the table.
const (
	createSessionFromArray slot = 8
	registerLibrary        slot = 301
	epDevices              slot = 303
	appendProvider         slot = 304
	deviceProvider         slot = 312
	assignment             slot = 407
	assignedProvider       slot = 408
	assignedNodes          slot = 409
	nodeName               slot = 410
	nodeDomain             slot = 411
	nodeOp                 slot = 412
	firstWithProviders          = 24
)

// Node is a node of a model and the provider that computes it.
type Node struct{ Provider, Name, Domain, Op string }

// Session configures a session. The zero value computes on the processor.
type Session struct {
	Provider string            // name of a registered provider, all of whose devices are used; "": none
	Options  map[string]string // of the provider
	Config   map[string]string // of the session
}

// Version returns the library's version.
func (e *Engine) Version() string { return e.api.version }

// Register loads a provider's library. A relative path is resolved in ONNX Runtime's folder.
func (e *Engine) Register(name, path string) error {
	if n, err := apiVersion(e.api.version); err != nil {
		return err
	} else if n < firstWithProviders {
		return fmt.Errorf("ONNX Runtime %s does not support providers in separate libraries: want 1.%d or later", e.api.version, firstWithProviders)
	}
	n := cString(name)
	file, err := nativePath(path)
	if err != nil {
		return err
	}
	err = e.api.call(registerLibrary, e.env, uintptr(unsafe.Pointer(n)), uintptr(file))
	runtime.KeepAlive(n)
	runtime.KeepAlive(file)
	return err
}

// Assign creates a session of a model in memory, returns the provider of each node, and closes
// the session. Files that the provider writes (Session.Config) then exist.
func (e *Engine) Assign(ctx context.Context, model []byte, s Session) ([]Node, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(model) == 0 {
		return nil, errors.New("empty model")
	}
	opt, err := e.options(1)
	if err != nil {
		return nil, err
	}
	defer e.api.release(releaseSessionOptions, opt)
	s.Config = maps.Clone(s.Config)
	if s.Config == nil {
		s.Config = map[string]string{}
	}
	s.Config["session.record_ep_graph_assignment_info"] = "1"
	if err := e.configure(opt, s); err != nil {
		return nil, err
	}
	session, err := e.api.create(createSessionFromArray, e.env, uintptr(unsafe.Pointer(&model[0])), uintptr(len(model)), opt)
	runtime.KeepAlive(model)
	if err != nil {
		return nil, err
	}
	defer e.api.release(releaseSession, session)
	return e.assigned(session)
}

// configure sets a session's options and adds its provider.
func (e *Engine) configure(opt uintptr, s Session) error {
	for _, key := range slices.Sorted(maps.Keys(s.Config)) {
		k, v := cString(key), cString(s.Config[key])
		err := e.api.call(addSessionConfigEntry, opt, uintptr(unsafe.Pointer(k)), uintptr(unsafe.Pointer(v)))
		runtime.KeepAlive(k)
		runtime.KeepAlive(v)
		if err != nil {
			return fmt.Errorf("session option %s: %w", key, err)
		}
	}
	if s.Provider == "" {
		return nil
	}
	return e.provide(opt, s)
}

// provide adds the provider to a session's options, with all of its devices.
func (e *Engine) provide(opt uintptr, s Session) error {
	list, n := new(uintptr), new(uintptr)
	if err := e.api.call(epDevices, e.env, uintptr(unsafe.Pointer(list)), uintptr(unsafe.Pointer(n))); err != nil {
		return err
	}
	var devices []uintptr
	for i := range slot(*n) {
		d := word(*list, i)
		if name, _, _ := purego.SyscallN(word(e.api.table, deviceProvider), d); dynlib.String(name) == s.Provider {
			devices = append(devices, d)
		}
	}
	if len(devices) == 0 {
		return fmt.Errorf("no device for provider %s", s.Provider)
	}
	var keys, values []*byte
	for _, key := range slices.Sorted(maps.Keys(s.Options)) {
		keys, values = append(keys, cString(key)), append(values, cString(s.Options[key]))
	}
	count := len(keys)
	keys, values = append(keys, nil), append(values, nil) // so that the first element has an address
	err := e.api.call(appendProvider, opt, e.env, uintptr(unsafe.Pointer(&devices[0])), uintptr(len(devices)),
		uintptr(unsafe.Pointer(&keys[0])), uintptr(unsafe.Pointer(&values[0])), uintptr(count))
	runtime.KeepAlive(keys)
	runtime.KeepAlive(values)
	return err
}

// assigned returns the provider of each node of a session.
func (e *Engine) assigned(session uintptr) ([]Node, error) {
	parts, err := e.list(assignment, session)
	if err != nil {
		return nil, err
	}
	var out []Node
	for _, part := range parts {
		provider, err := e.text(assignedProvider, part)
		if err != nil {
			return nil, err
		}
		nodes, err := e.list(assignedNodes, part)
		if err != nil {
			return nil, err
		}
		for _, n := range nodes {
			node := Node{Provider: provider}
			var errs [3]error
			node.Name, errs[0] = e.text(nodeName, n)
			node.Domain, errs[1] = e.text(nodeDomain, n)
			node.Op, errs[2] = e.text(nodeOp, n)
			if err := errors.Join(errs[:]...); err != nil {
				return nil, err
			}
			out = append(out, node)
		}
	}
	return out, nil
}

// list calls a function that returns an array and its length.
func (e *Engine) list(f slot, of uintptr) ([]uintptr, error) {
	first, n := new(uintptr), new(uintptr)
	if err := e.api.call(f, of, uintptr(unsafe.Pointer(first)), uintptr(unsafe.Pointer(n))); err != nil {
		return nil, err
	}
	var out []uintptr
	for i := range slot(*n) {
		out = append(out, word(*first, i))
	}
	return out, nil
}

// text calls a function that returns a text owned by the library.
func (e *Engine) text(f slot, of uintptr) (string, error) {
	p, err := e.api.create(f, of)
	return dynlib.String(p), err
}
