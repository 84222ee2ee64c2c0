package azure

import (
	"context"
	"net/http"
	"net/url"
)

// Create creates the container.
func (b *Bucket) Create(ctx context.Context) error {
	_, _, err := b.ask(ctx, request{method: http.MethodPut, query: url.Values{"restype": {"container"}}})
	return err
}
