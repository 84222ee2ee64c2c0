package records

import (
	"context"

	"mm-abi.org/mm/internal/fsx"
)

const MaxID = maxID

// AppendWith is Append with file system options.
func AppendWith[T any](ctx context.Context, path string, opt fsx.Options, rows ...T) error {
	return appendTo(ctx, path, opt, rows)
}
