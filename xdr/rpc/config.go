package rpc

import (
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// Config holds the limits of connections. Zero fields take the defaults named
// here. Share one Config by pointer between connections that should share
// buffer pools; do not change or copy it after its first use.
type Config struct {
	// MaxRecord is the longest record accepted, in bytes without record marks:
	// 1 MiB + 64 KiB. A longer one closes the connection.
	MaxRecord int
	// MaxInFlight is how many calls of one connection may be unanswered: 128.
	// When it is reached the socket is not read, replies to our own calls
	// included. So no Handler may wait for a call of its own on the same
	// connection without a limit in time, and of two ends one must keep its
	// calls under half of what the other takes (callbacks have few slots), or
	// each can wait for the other to read until StallTimeout. Half, because a
	// reply can reach the peer before the write that carried it has ended.
	MaxInFlight int
	// MaxBytes is how many bytes of buffers one connection's unanswered calls
	// may hold before the socket is not read: 64 MiB. Calls admitted before
	// still make their replies, so what is held can pass it by MaxInFlight replies.
	MaxBytes int
	// MaxTotalBytes is how many bytes of buffers the unanswered calls of all
	// connections that share the Config may hold: 4 GiB. When it is reached, a
	// connection whose calls hold any is not read until they are answered: each
	// goes on with one call at a time.
	MaxTotalBytes int64
	// StallTimeout is how long a peer may stop in the middle of a record, or
	// not read what we write, before the connection is closed: 60 s. Silence
	// between records is not limited here (TCP keepalive finds dead peers), but
	// before the first.
	StallTimeout time.Duration
	// FirstRecord is how long a peer that connected to us may take until its
	// first record is here: 0 is without limit.
	FirstRecord time.Duration
	// Flavors are the authentication flavours accepted: AuthNone and AuthSys.
	// One that is known but not listed is answered AuthTooWeak.
	Flavors []uint32
	// Acceptor authenticates RPCSEC_GSS calls, on the goroutines that serve them.
	// Nil: they are answered AuthRejectedCred.
	Acceptor Acceptor
	// Inline runs a Handler on the goroutine that reads, so that small calls
	// which came in together are answered by one write. The Handler must then
	// call Reply.Block before it does anything that may wait. It suits a
	// server: the goroutine that reads also writes, so two inline ends could
	// wait for each other to read.
	Inline bool
	// Log takes one line for a connection that is closed for its peer's fault. Default: none.
	Log *zap.Logger
	// Observer takes counts. Default: none.
	Observer Observer

	once sync.Once
	pool pools
	held atomic.Int64 // bytes of buffers of calls in work on all connections
}

// Held is how many bytes of buffers the unanswered calls of all connections hold.
func (c *Config) Held() int64 { return c.held.Load() }

// Observer counts what connections do. Its methods are called on hot paths
// from many goroutines at once, and must not block.
type Observer interface {
	// ConnOpened and ConnClosed bracket a connection's life. err is why it
	// ended; nil or io.EOF are usual ends.
	ConnOpened(c *Conn)
	ConnClosed(c *Conn, err error)
	// ConnRefused is a connection closed at once, over the limit on their number.
	ConnRefused()
	// Received counts one record, in bytes without its marks.
	Received(bytes int)
	// Sent counts one write of one or more records, in bytes with their marks.
	Sent(bytes int)
	// Rejected is a call answered with a Reject.
	Rejected(r Reject)
	// Orphan is a reply dropped because no call of ours waits for its xid.
	Orphan()
}

// fill sets the defaults, once.
func (c *Config) fill() {
	c.once.Do(func() {
		if c.MaxRecord <= 0 {
			c.MaxRecord = 1<<20 + 64<<10
		}
		if c.MaxInFlight <= 0 {
			c.MaxInFlight = 128
		}
		if c.MaxBytes <= 0 {
			c.MaxBytes = 64 << 20
		}
		if c.MaxTotalBytes <= 0 {
			c.MaxTotalBytes = 4 << 30
		}
		if c.StallTimeout <= 0 {
			c.StallTimeout = time.Minute
		}
		if c.Flavors == nil {
			c.Flavors = []uint32{AuthNone, AuthSys}
		}
		if c.Log == nil {
			c.Log = zap.NewNop()
		}
		if c.Observer == nil {
			c.Observer = silent{}
		}
	})
}

// silent is the Observer of those who have none.
type silent struct{}

func (silent) ConnOpened(*Conn)        {}
func (silent) ConnClosed(*Conn, error) {}
func (silent) ConnRefused()            {}
func (silent) Received(int)            {}
func (silent) Sent(int)                {}
func (silent) Rejected(Reject)         {}
func (silent) Orphan()                 {}
