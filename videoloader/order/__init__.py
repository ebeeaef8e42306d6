"""Which clip comes when, and on which rank: numbers only, no pixels."""
