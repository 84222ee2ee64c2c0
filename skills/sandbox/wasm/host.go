package wasm

import (
	"context"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// hostModule is the module name of mm's imports, in addition to WASI.
const hostModule = "mm"

type hostsKey struct{}

// withHosts adds the hosts that a call may reach to the context.
func withHosts(ctx context.Context, hosts []string) context.Context {
	if len(hosts) == 0 {
		return ctx
	}
	return context.WithValue(ctx, hostsKey{}, hosts)
}

// host defines the functions that guests import from mm.
//
//	fetch(url, len, into, cap i32) i32
//
// writes the body at the URL of len bytes at url into the cap bytes at into
// and returns its length, -1 if it is not available, or -2 if it is longer.
func (e *Executor) host(ctx context.Context, r wazero.Runtime) error {
	_, err := r.NewHostModuleBuilder(hostModule).
		NewFunctionBuilder().WithFunc(e.fetch).Export("fetch").
		Instantiate(ctx)
	if err != nil {
		return fmt.Errorf("defining the module mm: %w", err)
	}
	return nil
}

func (e *Executor) fetch(ctx context.Context, mod api.Module, url, length, into, capacity uint32) int32 {
	hosts, _ := ctx.Value(hostsKey{}).([]string)
	if e.opt.Fetcher == nil || len(hosts) == 0 || length > 2048 {
		return -1
	}
	text, ok := mod.Memory().Read(url, length)
	if !ok {
		return -1
	}
	dst, ok := mod.Memory().Read(into, capacity)
	if !ok || capacity > 1<<30 {
		return -1
	}
	body, err := e.opt.Fetcher.Fetch(ctx, hosts, string(text), int64(capacity)+1)
	if err != nil {
		return -1
	}
	if len(body) > len(dst) {
		return -2
	}
	return int32(copy(dst, body))
}
