package bucket

import (
	"context"
	"net/http"
	"net/url"
)

// Create creates the container.
func (b *Azure) Create(ctx context.Context) error {
	_, _, err := b.ask(ctx, azureRequest{method: http.MethodPut, query: url.Values{"restype": {"container"}}})
	return err
}
