package corpus

import "context"

func (c *collector) near(ctx context.Context) error { return nil }
