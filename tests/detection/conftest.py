from hypothesis import settings

# Tests run on busy machines: a slow example is not a failure. The same examples every time: a failure is a change.
settings.register_profile("wmbench", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("wmbench")
