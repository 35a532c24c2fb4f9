"""The world of topics: the folds, both serving machines and the client's fetching, through takeovers and cut lines."""
