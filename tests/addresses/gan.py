"""Two models and two optimizers that take turns; the generator's pass serves both updates."""

import torch
from torch import nn

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
critic = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
generator_optimizer = torch.optim.SGD(generator.parameters(), lr=0.1)
critic_optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
real = torch.linspace(-1, 1, 12).reshape(4, 3)

for _ in range(2):
    critic_optimizer.zero_grad()
    critic(real).mean().neg().backward()
    fake = generator(torch.randn(4, 2))
    critic(fake.detach()).mean().backward()
    critic_optimizer.step()

    generator_optimizer.zero_grad()
    critic(fake).mean().neg().backward()
    generator_optimizer.step()
